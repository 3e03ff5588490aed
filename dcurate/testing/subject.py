"""The laws of a package that announces stages and rules, as a class of tests."""

from __future__ import annotations

import doctest
import importlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from dcurate.cluster.local import LocalCluster
from dcurate.core.batch import BatchKey
from dcurate.core.public import announced_modules
from dcurate.core.stage import ProcessingStage, SourceStage, Stage
from dcurate.engine.dask.executor import DaskExecutor
from dcurate.engine.inline import InlineExecutor
from dcurate.frames.columns import with_column
from dcurate.frames.document import DocumentBatch
from dcurate.result import RunResult
from dcurate.run import Pipeline
from dcurate.testing.stage import check_stage
from dcurate.text.filter import DocumentFilter
from dcurate.text.score import ScoreFilter


class SubjectTests(ABC):
    """Hold all that a package announces against the laws of dcurate: subclass it in a test module, for pytest.

    The laws of `check_stage`, and: what is public has an example that runs, columns that a stage does not name and the
    order of rows stay, every setting has an effect, a reader reads the same again. Rules are tried in a `ScoreFilter`.
    Each law is a method; override one with a reason where it is not to hold. That a row which a stage leaves out is
    counted as dropped is the engine's part.

    Attributes:
        module: public module, as the entry point in ``dcurate.subjects`` announces it.

    Examples:
        >>> class TestShouting(SubjectTests):
        ...     module = "acme_shouting"
        ...     def parts(self):
        ...         return [Quieten(), ShoutingFilter()]
        ...     def rows(self):
        ...         return DocumentBatch(data=pd.DataFrame({"text": ["Calm", "LOUD", "Soft"]}))
        ...     def other_settings(self):
        ...         return {"Quieten": {"length_field": "n"}, "ShoutingFilter": {"max_share": 1.0}}
    """

    module: ClassVar[str]

    @abstractmethod
    def parts(self) -> Sequence[Any]:
        """One object, or several, of each public stage, rule and reader."""

    @abstractmethod
    def rows(self) -> DocumentBatch:
        """A few rows that stages and rules can work on, of which the first stays."""

    def other_settings(self) -> Mapping[str, Mapping[str, Any]]:
        """Another value of each setting, by class: one with which the result is another."""
        return {}

    def test_the_module_is_announced(self) -> None:
        assert self.module in announced_modules(), (
            f'no installed package announces {self.module!r}; add it to [project.entry-points."dcurate.subjects"], and '
            "install the package"
        )

    def test_all_that_is_public_has_an_example_and_is_tried(self) -> None:
        tried = {type(part) for part in self.parts()}
        for name, thing in self._public().items():
            assert doctest.DocTestFinder(recurse=False).find(thing, name), f"{name} has no docstring; write one"
            assert ">>>" in (thing.__doc__ or ""), f"{name} has no example; show it after >>> in its docstring"
            if inspect.isclass(thing) and issubclass(thing, Stage | DocumentFilter):
                assert thing in tried, f"parts() has no {name}; add one"

    def test_examples_run(self) -> None:
        for name, thing in self._public().items():
            for example in doctest.DocTestFinder(recurse=False).find(thing, name, globs={name: thing}):
                failed = doctest.DocTestRunner(verbose=False).run(example).failed
                assert not failed, f"{failed} examples of {name} fail; their output is above"

    def test_every_stage_keeps_what_the_engine_relies_on(self) -> None:
        for stage in self._stages():
            check_stage(stage, self.rows(), skip=["cluster"])

    def test_every_stage_gives_the_same_rows_in_worker_processes(self) -> None:
        with LocalCluster(n_workers=2) as cluster:
            executor = DaskExecutor(cluster=cluster)
            for stage in self._stages():
                check_stage(stage, self.rows(), executor=executor, skip=[])

    def test_columns_that_are_not_named_stay_as_they_came(self) -> None:
        table = self.rows().to_arrow()
        numbers = range(2**53, 2**53 + table.num_rows)  # a float does not hold all of them
        values: dict[str, list[Any]] = {
            "_beside_number": list(numbers),
            "_beside_text": [None if number == numbers[1] else f"é{number}" for number in numbers],
            "_beside_list": [None if number == numbers[1] else [0.1, 1.0] for number in numbers],
        }
        for name, column in values.items():
            table = with_column(table, name, column)
        for stage in self._stages():
            made = self._run(stage, self.rows().with_data(table)).to_arrow()
            for name in values:
                before, after = (of.schema.field(name).type for of in (table, made))
                assert before == after, f"stage {stage.name!r} makes column {name!r} {after}, which was {before}"
            rows = [numbers.index(number) for number in made["_beside_number"].to_pylist()]
            for name, column in values.items():
                wanted = [column[row] for row in rows]
                assert made[name].to_pylist() == wanted, f"stage {stage.name!r} changes a column that it does not name"
            assert rows == sorted(rows), f"stage {stage.name!r} changes the order of rows"

    def test_every_setting_has_an_effect(self) -> None:
        others = self.other_settings()
        for part in self.parts():
            kind = type(part)
            if isinstance(part, SourceStage):
                continue
            settings = [name for name in inspect.signature(kind).parameters if name != "name"]
            missing = [name for name in settings if name not in others.get(kind.__name__, {})]
            assert not missing, (
                f"other_settings() has no value for {missing} of {kind.__name__}; add one with an effect"
            )
            before = self._shown(part)
            for name in settings:
                value = others[kind.__name__][name]
                changed = kind(**{**self._settings(part, settings), name: value})
                assert self._shown(changed) != before, (
                    f"{kind.__name__}({name}={value!r}) makes the same rows; remove it"
                )

    def test_every_reader_gives_the_same_splits_and_rows_again(self) -> None:
        for part in self.parts():
            if isinstance(part, SourceStage):
                first, second = ([repr(split.key) for split in part.splits()] for _ in range(2))
                assert first == second, f"stage {part.name!r} lists other splits the second time"
                results = [Pipeline("reader", stages=[part]).run(InlineExecutor(), observers=[]) for _ in range(2)]
                assert results[0].to_arrow().equals(results[1].to_arrow()), (
                    f"stage {part.name!r} reads other rows again"
                )
                known, columns = part.columns(), results[0].to_arrow().column_names
                assert known is None or known == columns, f"stage {part.name!r} says {known} and reads {columns}"

    def _public(self) -> dict[str, Any]:
        module = importlib.import_module(self.module)
        return {name: getattr(module, name) for name in module.__all__}

    def _stages(self) -> Iterator[ProcessingStage[Any, Any]]:
        for part in self.parts():
            if not isinstance(part, SourceStage):
                yield _as_stage(part)

    def _run(self, stage: Any, rows: DocumentBatch | None = None) -> RunResult:
        batch = replace(rows or self.rows(), key=BatchKey("rows"))
        return Pipeline("subject", stages=[stage]).run(InlineExecutor(), initial_tasks=[batch], observers=[])

    def _shown(self, part: Any) -> str:
        stage = _as_stage(part)
        batch = self.rows()
        missing = [name for name in stage.inputs()[1] if name not in batch.get_columns()]
        if missing:  # it reads another column, which is an effect
            return f"reads {missing}"
        return repr(self._run(stage).to_arrow().to_pydict())

    @staticmethod
    def _settings(part: Any, names: Sequence[str]) -> dict[str, Any]:
        return {name: vars(part)[name] for name in names if name in vars(part)}


def _as_stage(part: Any) -> ProcessingStage[Any, Any]:
    stage: ProcessingStage[Any, Any] = ScoreFilter(part) if isinstance(part, DocumentFilter) else part
    return stage

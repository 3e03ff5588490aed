"""The site says of commands what the code says, and leads from names to the reference."""

from __future__ import annotations

import re
from types import ModuleType, SimpleNamespace

from dcurate.cli import cli
from tests.conftest import ROOT


def test_the_page_of_commands_has_every_command_and_option(hooks: ModuleType) -> None:
    page = hooks.on_page_markdown((ROOT / "docs" / "reference" / "cli.md").read_text(encoding="utf-8"))
    for name, command in cli.commands.items():
        assert f"## dcurate {name}" in page
        for option in (one for parameter in command.params for one in parameter.opts if one.startswith("--")):
            assert re.search(rf"\| `[^`]*{option}[ `,]", page), (name, option)


def test_a_public_name_leads_to_the_reference_but_not_from_links_headings_and_blocks(hooks: ModuleType) -> None:
    def shown(content: str) -> str:
        made: str = hooks.on_page_content(content, page=SimpleNamespace(url="howto/dedup/"))
        return made

    link = '<a href="../../reference/dcurate/#dcurate.Pipeline"><code>Pipeline</code></a>'
    assert shown("<p><code>Pipeline</code></p>") == f"<p>{link}</p>"
    for kept in ("<code>unknown</code>", "<h2><code>Pipeline</code></h2>", "<a href='x'><code>Pipeline</code></a>"):
        assert shown(kept) == kept
    assert shown("<td><code>Filter(most=1)</code></td>") == "<td><code>Filter(<wbr>most=1)</code></td>"


def test_names_of_a_module_are_in_the_reference_without_being_written_there(hooks: ModuleType) -> None:
    page = hooks.on_page_markdown("## Lines\n\n<!-- names of dcurate.text.filters.lines -->\n")
    assert (
        page
        == "## Lines\n\n"
        + "\n\n".join(f"::: dcurate.text.{name}" for name in ("BulletsFilter", "EllipsisFilter", "PunctuationFilter"))
        + "\n"
    )


def test_the_navigation_has_every_page_of_the_reference(hooks: ModuleType) -> None:
    written = [{"reference": f"reference/{page}.md"} for page in ("index", "names", "cli")]
    config = hooks.on_config(SimpleNamespace(nav=[{"Start": []}, {"Reference": written}]))
    pages = [path for entry in config.nav[1]["Reference"] for path in entry.values()]
    assert sorted(pages) == sorted(f"reference/{page.name}" for page in (ROOT / "docs" / "reference").glob("*.md"))

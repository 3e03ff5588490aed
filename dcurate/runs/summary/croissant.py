"""The outputs as a data set in Croissant 1.0, the format of ML Commons."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

from dcurate.errors import PipelineError
from dcurate.fs.stores import Directory
from dcurate.io.files import JSONL, PARQUET, hidden
from dcurate.runs.summary.summary import TrainingSummary

_CONTEXT: Mapping[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataBiases": "cr:dataBiases",
    "dataCollection": "cr:dataCollection",
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "personalSensitiveInformation": "cr:personalSensitiveInformation",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_LINES = "application/jsonlines"
_TYPES = {"text": "sc:Text", "integer": "sc:Integer", "float": "sc:Float", "flag": "sc:Boolean", "date": "sc:DateTime"}
#: Names of columns that pandas, with which JSON Lines are loaded, takes for dates, also where they hold others.
_DATES = re.compile(r"date|modified|timestamp.*|.*_(at|time)", re.IGNORECASE)
#: Characters that mean something in patterns of names.
_SPECIAL = re.compile(r"([*?[])")
_NOT_OF_ID = re.compile(r"[^A-Za-z0-9_-]+")


def croissant(summary: TrainingSummary, folder: str, published: str) -> dict[str, Any]:
    """Return the outputs of a summary as a data set in Croissant 1.0.

    Columns of plain values are fields; nested ones and bytes are left out, and of JSON Lines those that are dates by
    their names, as they are not loaded as they are.

    Args:
        summary: the summary; local outputs of Parquet, or of JSON Lines that are not compressed.
        folder: the local folder of the file to be; outputs are below it.
        published: the date of publication: ``YYYY-MM-DD``.

    Raises:
        PipelineError: an output is not below the folder, or has files of other kinds.
    """
    files, records = [], []
    for number, (output, columns) in enumerate(zip(summary.outputs, summary.columns, strict=True)):
        name = _NOT_OF_ID.sub("-", output.rstrip("/").rpartition("/")[2]).strip("-") or "data"
        name = name if len(summary.outputs) == 1 else f"{name}-{number}"
        form, endings = _format(output)
        below = _below(output, folder)
        files.append(
            {
                "@type": "cr:FileSet",
                "@id": f"{name}-files",
                "name": f"{name}-files",
                "encodingFormat": form,
                "includes": [f"{below}*{ending}" for ending in endings],
            }
        )
        plain = {column: _TYPES[kind] for column, kind in columns.items() if kind in _TYPES}
        if form == _LINES:
            plain = {column: kind for column, kind in plain.items() if not _DATES.fullmatch(column)}
        fields = [_field(name, column, kind) for column, kind in plain.items()]
        records.append({"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields})
    stated = {key: summary.stated(f"dataset_{key}") for key in ("name", "description", "url", "licence")}
    about: dict[str, Any] = {
        "@context": dict(_CONTEXT),
        "@type": "sc:Dataset",
        "name": stated["name"] or "training-data",
        "description": stated["description"] or _described(summary),
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "datePublished": published,
        "version": "1.0.0",
        "distribution": files,
        "recordSet": [record for record in records if record["field"]],
    }
    provider = summary.stated("provider_name")
    more = {
        "url": stated["url"],
        "license": stated["licence"],
        "creator": {"@type": "sc:Organization", "name": provider} if provider else None,
    }
    return about | {key: value for key, value in more.items() if value}


def _field(records: str, column: str, kind: str) -> dict[str, Any]:
    return {
        "@type": "cr:Field",
        "@id": f"{records}/{column}",
        "name": column,
        "dataType": kind,
        "source": {"fileSet": {"@id": f"{records}-files"}, "extract": {"column": column}},
    }


def _described(summary: TrainingSummary) -> str:
    parts = [
        f"{field.value:,} {field.title.lower()}"
        for section in summary.sections
        for field in section.fields
        if field.name.endswith("_documents") and isinstance(field.value, int) and section.number == "1.3"
    ]
    return f"Training data, curated with dcurate ({'; '.join(parts) or 'no documents'})."


def _format(output: str) -> tuple[str, list[str]]:
    names = [name for name in Directory(output).files() if not any(map(hidden, name.split("/")))]
    if names and all(map(PARQUET.matches, names)):
        return "application/x-parquet", list(PARQUET.suffixes)
    if names and all(name.lower().endswith(JSONL.suffixes) for name in names):
        return _LINES, list(JSONL.suffixes)
    raise PipelineError(
        f"{output!r} is neither all Parquet nor all plain JSON Lines, which is what Croissant describes; "
        "leave out this output"
    )


def _below(output: str, folder: str) -> str:
    if "://" in output:
        raise PipelineError(f"{output!r} is in a store; write the Croissant file beside a local copy of the output")
    path = os.path.relpath(os.path.realpath(output), os.path.realpath(folder))
    if path.split(os.sep)[0] == os.pardir:
        raise PipelineError(
            f"{output!r} is not below {folder!r}; write the Croissant file into a folder above the output"
        )
    return "" if path == os.curdir else _SPECIAL.sub(r"[\1]", path) + "/"

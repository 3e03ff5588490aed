"""The licences of documents as a document of SPDX 2.3."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from dcurate.errors import PipelineError
from dcurate.runs.summary.sizes import NONE
from dcurate.runs.summary.summary import TrainingSummary

_NOTHING = "NOASSERTION"
_NOT_OF_ID = re.compile(r"[^A-Za-z0-9.-]+")


def spdx_document(summary: TrainingSummary, created: str) -> dict[str, Any]:
    """Return the licences of the documents as SPDX 2.3.

    The data are a package that contains another for each licence, with the number of its documents. A licence that
    SPDX does not know is listed with its text in the column under an identifier of its own.

    Args:
        summary: the summary.
        created: when it was made: ``YYYY-MM-DDThh:mm:ssZ``.

    Raises:
        PipelineError: no column of licences was counted.

    Examples:
        >>> from dcurate.runs.summary.fields import SummaryField, SummarySection
        >>> rows = [{"licence": "cc-by-4.0", "documents": 2}, {"licence": "ours", "documents": 1}]
        >>> section = SummarySection("2.1", "", (SummaryField("licences", "Licences", rows),))
        >>> made = spdx_document(TrainingSummary((section,), ("out",)), "2026-08-02T00:00:00Z")
        >>> made["packages"][0]["licenseConcluded"]
        'CC-BY-4.0 AND LicenseRef-ours'
    """
    counted = summary.field("licences")
    if counted is None or counted.value is None:
        raise PipelineError("no output has a column of licences; name it with the role licence")
    name = summary.stated("dataset_name") or "training data"
    rows = [(row, _expression(row["licence"])) for row in counted.value]
    parts = [
        _package(f"SPDXRef-Licence-{number}", f"{name}: documents under {row['licence']}")
        | {"licenseConcluded": expression, "comment": f"{row['documents']} documents"}
        for number, (row, expression) in enumerate(rows)
    ]
    known = " AND ".join(sorted({f"({ids})" if " " in ids else ids for _, ids in rows if ids != _NOTHING}))
    whole = _package("SPDXRef-Data", name, summary.stated("dataset_url"))
    whole |= {"licenseConcluded": known or _NOTHING, "licenseDeclared": _declared(summary.stated("dataset_licence"))}
    others = {ids: row["licence"] for row, ids in rows if ids.startswith("LicenseRef-")}
    packages = [whole, *parts]
    digest = hashlib.sha256(json.dumps(packages).encode()).hexdigest()[:32]
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"licences of {name}",
        "documentNamespace": f"https://spdx.org/spdxdocs/dcurate-{digest}",
        "creationInfo": {"created": created, "creators": ["Tool: dcurate"]},
        "packages": packages,
        "relationships": [
            _related("SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-Data"),
            *(_related("SPDXRef-Data", "CONTAINS", part["SPDXID"]) for part in parts),
        ],
        "hasExtractedLicensingInfos": [
            {"licenseId": ref, "name": text, "extractedText": text} for ref, text in sorted(others.items())
        ],
    }


def _package(ref: str, name: str, address: str | None = None) -> dict[str, Any]:
    return {
        "SPDXID": ref,
        "name": name,
        "downloadLocation": address or _NOTHING,
        "filesAnalyzed": False,
        "copyrightText": _NOTHING,
    }


def _related(whole: str, kind: str, part: str) -> dict[str, str]:
    return {"spdxElementId": whole, "relationshipType": kind, "relatedSpdxElement": part}


def _expression(licence: str) -> str:
    return _NOTHING if licence == NONE else spdx_id(licence)


def spdx_id(text: str) -> str:
    """Return the SPDX expression of a licence, or an identifier of its own for one that SPDX does not know.

    Examples:
        >>> spdx_id("mit"), spdx_id("Our licence, v2"), spdx_id("§")
        ('MIT', 'LicenseRef-Our-licence-v2', 'LicenseRef-f8bf3102')
    """
    try:
        return str(canonicalize_license_expression(text))
    except InvalidLicenseExpression:
        plain = _NOT_OF_ID.sub("-", text).strip("-.")
        return f"LicenseRef-{plain or hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _declared(licence: str | None) -> str:
    expression = spdx_id(licence) if licence else _NOTHING
    return _NOTHING if expression.startswith("LicenseRef-") else expression

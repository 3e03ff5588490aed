"""The licences of documents as a document of SPDX 2.3."""

from __future__ import annotations

import hashlib
import re
from typing import Any

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from dcurate.errors import PipelineError
from dcurate.runs.summary.summary import TrainingSummary

_NOT_OF_ID = re.compile(r"[^A-Za-z0-9.-]+")


def spdx_document(summary: TrainingSummary, created: str) -> dict[str, Any]:
    """Return the licences of the documents as SPDX 2.3.

    A licence that SPDX does not know is listed with its text in the column under an identifier of its own.

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
        >>> made["packages"][0]["licenseInfoFromFiles"]
        ['CC-BY-4.0', 'LicenseRef-ours']
    """
    counted = summary.field("licences")
    if counted is None or counted.value is None:
        raise PipelineError("no output has a column of licences; name it with the role licence")
    name = summary.stated("dataset_name") or "training data"
    ids = {row["licence"]: spdx_id(row["licence"]) for row in counted.value if row["licence"] != "(none)"}
    comments = [f"{row['licence']}: {row['documents']} documents" for row in counted.value]
    digest = hashlib.sha256("\n".join([name, *comments]).encode()).hexdigest()[:32]
    package: dict[str, Any] = {
        "SPDXID": "SPDXRef-Data",
        "name": name,
        "downloadLocation": summary.stated("dataset_url") or "NOASSERTION",
        "filesAnalyzed": True,
        "licenseConcluded": "NOASSERTION",
        "licenseDeclared": _declared(summary.stated("dataset_licence")),
        "licenseInfoFromFiles": sorted(set(ids.values())) or ["NONE"],
        "copyrightText": "NOASSERTION",
        "comment": "\n".join(comments),
    }
    others = {ref: text for text, ref in ids.items() if ref.startswith("LicenseRef-")}
    return {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"licences of {name}",
        "documentNamespace": f"https://spdx.org/spdxdocs/dcurate-{digest}",
        "creationInfo": {"created": created, "creators": ["Tool: dcurate"]},
        "packages": [package],
        "relationships": [
            {
                "spdxElementId": "SPDXRef-DOCUMENT",
                "relationshipType": "DESCRIBES",
                "relatedSpdxElement": "SPDXRef-Data",
            }
        ],
        "hasExtractedLicensingInfos": [
            {"licenseId": ref, "name": text, "extractedText": text} for ref, text in sorted(others.items())
        ],
    }


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
    expression = spdx_id(licence) if licence else "NOASSERTION"
    return expression if not expression.startswith("LicenseRef-") else "NOASSERTION"

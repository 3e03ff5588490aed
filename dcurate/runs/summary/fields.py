"""The fields of the template of the AI Office, of 24 July 2025, and what providers fill in themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

#: What a fact is: text, several texts, a yes or no, or data sets by name.
Kind = Literal["text", "texts", "yes or no", "data sets"]

#: The template that is followed.
TEMPLATE = (
    "Template for the Public Summary of Training Content for general-purpose AI models, "
    "Article 53(1)(d) of Regulation (EU) 2024/1689, 24 July 2025"
)
SECTIONS: Mapping[str, str] = {
    "0": "About this summary",
    "1.1": "Provider",
    "1.2": "Model",
    "1.3": "Modalities, size and other characteristics of the training data",
    "2.1": "Publicly available datasets",
    "2.2.1": "Datasets commercially licensed by rightsholders or their representatives",
    "2.2.2": "Private datasets obtained from other third parties",
    "2.3": "Data crawled and scraped from online sources",
    "2.4": "User data",
    "2.5": "Synthetic data",
    "2.6": "Other sources of data",
    "3.1": "Respect of reservations of rights from the text and data mining exception",
    "3.2": "Removal of illegal content",
    "3.3": "Other information about data processing",
    "removed": "What was removed",
}
REMOVED = "removed"
#: What a field says where the provider did not use what it is about.
NOT_APPLICABLE = "not applicable"


class Fact(NamedTuple):
    """A field that a provider can fill in.

    Attributes:
        section: number of its section.
        title: what it is.
        kind: what it holds.
        used: the fact without which it does not apply; empty if it does in any case.
        optional: whether it is left out, and not a blank, where the provider does not state it.
    """

    section: str
    title: str
    kind: Kind = "text"
    used: str = ""
    optional: bool = False


#: The facts, in the order of the template.
FACTS: Mapping[str, Fact] = {
    "summary_version": Fact("0", "Version of the summary, and links to earlier ones"),
    "last_update": Fact("0", "Date of the last update"),
    "provider_name": Fact("1.1", "Name of the provider"),
    "provider_contact": Fact("1.1", "Contact details of the provider"),
    "authorised_representative": Fact("1.1", "Authorised representative: name and contact details"),
    "model_names": Fact("1.2", "Names and versions of the models", "texts"),
    "model_dependencies": Fact("1.2", "Models that were modified or fine-tuned, with links to their summaries"),
    "placed_on_market": Fact("1.2", "Date of placing on the Union market"),
    "types_of_content": Fact("1.3", "Types of content, by modality"),
    "latest_date": Fact("1.3", "Latest date of data acquisition or collection"),
    "continuously_trained": Fact("1.3", "Whether the model is trained on new data after that date", "yes or no"),
    "languages": Fact("1.3", "Linguistic characteristics of the training data"),
    "other_characteristics": Fact("1.3", "Other characteristics, such as regions and demographic groups"),
    "public_datasets_used": Fact("2.1", "Whether publicly available datasets were used", "yes or no"),
    "public_datasets": Fact("2.1", "Large publicly available datasets", "data sets", used="public_datasets_used"),
    "other_public_datasets": Fact(
        "2.1", "Description of the other publicly available datasets", used="public_datasets_used"
    ),
    "licensed_datasets_used": Fact("2.2.1", "Whether licences were concluded with rightsholders", "yes or no"),
    "licensed_modalities": Fact("2.2.1", "Modalities of the licensed content", "texts", used="licensed_datasets_used"),
    "private_datasets_used": Fact("2.2.2", "Whether private datasets of other third parties were used", "yes or no"),
    "private_datasets": Fact(
        "2.2.2", "Private datasets that are publicly known", "data sets", used="private_datasets_used"
    ),
    "other_private_datasets": Fact(
        "2.2.2", "Description of the private datasets that are not", used="private_datasets_used"
    ),
    "crawlers_used": Fact("2.3", "Whether crawlers were used by the provider or on its behalf", "yes or no"),
    "crawlers": Fact("2.3", "Names and identifiers of the crawlers", "texts", used="crawlers_used"),
    "crawler_purposes": Fact("2.3", "Purposes of the crawlers", used="crawlers_used"),
    "crawler_behaviour": Fact("2.3", "Behaviour of the crawlers: robots.txt, captchas, paywalls", used="crawlers_used"),
    "collection_period": Fact("2.3", "Period of data collection", used="crawlers_used"),
    "crawled_content": Fact(
        "2.3", "Description of the type of content and of the online sources", used="crawlers_used"
    ),
    "crawled_modalities": Fact("2.3", "Modalities of the crawled content", "texts", used="crawlers_used"),
    "user_data_used": Fact("2.4", "Whether data of users of the model or of other services was used", "yes or no"),
    "user_data": Fact("2.4", "Services and products that the user data was collected from", used="user_data_used"),
    "user_data_modalities": Fact("2.4", "Modalities of the user data", "texts", used="user_data_used"),
    "synthetic_data_used": Fact("2.5", "Whether synthetic data was made by or for the provider", "yes or no"),
    "synthetic_modalities": Fact("2.5", "Modalities of the synthetic data", "texts", used="synthetic_data_used"),
    "synthetic_models": Fact(
        "2.5", "Models on the market that synthetic data was made with", "texts", used="synthetic_data_used"
    ),
    "other_synthetic_models": Fact("2.5", "Other models that synthetic data was made with", used="synthetic_data_used"),
    "other_sources_used": Fact("2.6", "Whether data came from other sources", "yes or no"),
    "other_sources": Fact("2.6", "Description of the other sources", used="other_sources_used"),
    "code_of_practice": Fact("3.1", "Whether the provider signed the Code of Practice", "yes or no"),
    "opt_out_measures": Fact("3.1", "Measures to respect reservations of rights, before and during collection"),
    "illegal_content_measures": Fact("3.2", "Measures to avoid or remove illegal content"),
    "other_information": Fact("3.3", "Other information", optional=True),
    "comments_1_3": Fact("1.3", "Additional comments", optional=True),
    "comments_2_1": Fact("2.1", "Additional comments", optional=True),
    "comments_2_2_2": Fact("2.2.2", "Additional comments", optional=True),
    "comments_2_3": Fact("2.3", "Additional comments", optional=True),
    "comments_2_4": Fact("2.4", "Additional comments", optional=True),
    "comments_2_5": Fact("2.5", "Additional comments", optional=True),
    "comments_2_6": Fact("2.6", "Additional comments", optional=True),
    "comments_3_1": Fact("3.1", "Additional comments", optional=True),
    "dataset_name": Fact("0", "Name of the training data", optional=True),
    "dataset_description": Fact("0", "Description of the training data", optional=True),
    "dataset_url": Fact("0", "Address of the training data", optional=True),
    "dataset_licence": Fact("0", "Licence of the training data as a whole", optional=True),
}


@dataclass(frozen=True)
class SummaryField:
    """A field of the summary.

    Attributes:
        name: its key.
        title: what it is.
        value: what was counted: a number, a text, a list of texts, or a table as a list of rows; None if nothing was.
        how: how it was counted, in words.
        estimate: whether it is an estimate.
        stated: what the provider says.
        blank: what the provider is to fill in, where there is neither.

    Examples:
        >>> SummaryField("files", "Files", 3, "counted in the folders").to_dict()
        {'title': 'Files', 'value': 3, 'how': 'counted in the folders'}
    """

    name: str
    title: str
    value: Any = None
    how: str = ""
    estimate: bool = False
    stated: Any = None
    blank: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        values: dict[str, Any] = {"title": self.title, "value": self.value}
        if self.how:
            values["how"] = self.how
        if self.estimate:
            values["estimate"] = True
        if self.stated is not None:
            values["stated"] = self.stated
        if self.blank:
            values["blank"] = self.blank
        return values


@dataclass(frozen=True)
class SummarySection:
    """A section of the summary: its number in the template, title and fields.

    Examples:
        >>> SummarySection("1.1", "Provider", (SummaryField("provider_name", "Name", stated="ACME"),)).to_dict()
        {'title': 'Provider', 'fields': {'provider_name': {'title': 'Name', 'value': None, 'stated': 'ACME'}}}
    """

    number: str
    title: str
    fields: tuple[SummaryField, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold."""
        return {"title": self.title, "fields": {field.name: field.to_dict() for field in self.fields}}


def sections_of(counted: Mapping[str, Sequence[SummaryField]], facts: Mapping[str, Any]) -> tuple[SummarySection, ...]:
    """Return the sections: for each fact a field, with what was counted under its name, and then what else was.

    Args:
        counted: fields by the number of their section.
        facts: what the provider says, by name.
    """
    sections = []
    for number, title in SECTIONS.items():
        by_name = {field.name: field for field in counted.get(number, ())}
        fields = []
        for name, fact in FACTS.items():
            if fact.section == number:
                field = by_name.pop(name, SummaryField(name, fact.title))
                stated = facts.get(name)
                if stated is None and field.value is None and facts.get(fact.used) is False:
                    stated = NOT_APPLICABLE
                field = replace(field, stated=stated)
                if field.value is None and stated is None:
                    field = replace(field, blank=_blank(field, fact))
                if not (field.blank and fact.optional):
                    fields.append(field)
        more = list(by_name.values())
        fields = [*more, *fields] if number == "1.3" else [*fields, *more]  # sizes come first in the template
        if fields:
            sections.append(SummarySection(number, title, tuple(fields)))
    return tuple(sections)


def _blank(field: SummaryField, fact: Fact) -> str:
    missing = f" ({field.how})" if field.how else ""
    return f"to be filled in by the provider: {fact.title[0].lower()}{fact.title[1:]}{missing}"

"""The crawlers whose refusal in robots.txt says something about a use."""

from __future__ import annotations

from collections.abc import Mapping

from dcurate.rights.fields import Use

#: Names by which robots.txt addresses crawlers, and what these fetch pages for, as their operators say.
CRAWLERS: Mapping[Use, tuple[str, ...]] = {
    "train": (
        *("AI2Bot", "Ai2Bot-Dolma", "Amazonbot", "anthropic-ai", "Applebot-Extended", "Bytespider", "CCBot"),
        *("ClaudeBot", "Claude-Web", "cohere-ai", "cohere-training-data-crawler", "DeepSeekBot", "Diffbot"),
        *(
            "FacebookBot",
            "Google-Extended",
            "GPTBot",
            "ICC-Crawler",
            "img2dataset",
            "Kangaroo Bot",
            "LAION-HuggingFace",
        ),
        *("Meta-ExternalAgent", "omgili", "omgilibot", "PanguBot", "SBIntuitionsBot", "Timpibot"),
        *("VelenPublicWebCrawler", "Webzio-Extended"),
    ),
    "search": (
        *("Applebot", "bingbot", "Claude-SearchBot", "DuckAssistBot", "DuckDuckBot", "Googlebot", "OAI-SearchBot"),
        *("PerplexityBot", "YandexBot"),
    ),
}

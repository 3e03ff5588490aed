"""The writer of clips, with NeMo Curator's name and arguments."""

from __future__ import annotations

import hashlib
import io
import json
import logging
import os
import pickle
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dcurate.compat.nemo.files import JsonEncoderCustom
from dcurate.compat.nemo.stages import Resources, Spec
from dcurate.compat.nemo.verbose import log_progress
from dcurate.compat.nemo.video_stages.films import FilmLooker, looked_at, metadata_of, probing
from dcurate.compat.nemo.video_stages.tasks import Clip, ClipStats, Video, VideoTask, VideoTaskStage, about_clip
from dcurate.fs.stores import Directory

_log = logging.getLogger("dcurate.compat.nemo")


@dataclass
class ClipWriterStage(VideoTaskStage):
    """Write clips, their documents, previews and embeddings in NeMo Curator's folders.

    Files are replaced. Embeddings are ``ce1_embd/UUID.pickle``, arrays of NumPy, and all of a film
    ``ce1_embd_parquet/UUID.parquet``. The document of a film says in ``errors`` why it has no clips.

    Args:
        output_path: directory to write to, local or a URL.
        input_path: directory of the films.
        upload_clips: whether clips are written.
        dry_run: whether only documents of films and parts of films are written.
        generate_embeddings, generate_previews, generate_captions: whether clips should have them; what is missing is
            logged.
        embedding_algorithm: model of the embeddings.
        caption_models, enhanced_caption_models: models of the captions, in the order in which they are preferred.
        verbose: whether films are logged.
        max_workers, log_stats: without effect.
    """

    output_path: str
    input_path: str
    upload_clips: bool
    dry_run: bool
    generate_embeddings: bool
    generate_previews: bool
    generate_captions: bool
    embedding_algorithm: str = "cosmos-embed1"
    caption_models: list[str] | None = None
    enhanced_caption_models: list[str] | None = None
    verbose: bool = False
    max_workers: int = 6
    log_stats: bool = False
    name: str = "clip_writer"
    _probe: FilmLooker = field(default_factory=probing, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.resources = Resources(cpus=0.25)

    def inputs(self) -> Spec:
        return ["data"], []

    def outputs(self) -> Spec:
        return ["data"], []

    def teardown(self) -> None:
        """End the child process."""
        self._probe.teardown()

    @staticmethod
    def _get_output_path(output_path: str, extra: str) -> str:
        return output_path.rstrip("/") + "/" + extra.strip("/")

    @staticmethod
    def get_output_path_processed_videos(output_path: str) -> str:
        """Return the folder of documents of films."""
        return ClipWriterStage._get_output_path(output_path, "processed_videos")

    @staticmethod
    def get_output_path_processed_clip_chunks(output_path: str) -> str:
        """Return the folder of documents of parts of films."""
        return ClipWriterStage._get_output_path(output_path, "processed_clip_chunks")

    @staticmethod
    def get_output_path_clips(output_path: str, *, filtered: bool = False) -> str:
        """Return the folder of clips."""
        return ClipWriterStage._get_output_path(output_path, "filtered_clips" if filtered else "clips")

    @staticmethod
    def get_output_path_previews(output_path: str) -> str:
        """Return the folder of previews."""
        return ClipWriterStage._get_output_path(output_path, "previews")

    @staticmethod
    def get_output_path_metas(output_path: str, version: str) -> str:
        """Return the folder of documents of clips."""
        return ClipWriterStage._get_output_path(output_path, f"metas/{version}")

    @staticmethod
    def get_output_path_ce1_embd(output_path: str) -> str:
        """Return the folder of embeddings."""
        return ClipWriterStage._get_output_path(output_path, "ce1_embd")

    @staticmethod
    def get_output_path_ce1_embd_parquet(output_path: str) -> str:
        """Return the folder of embeddings of all clips of a part of a film."""
        return ClipWriterStage._get_output_path(output_path, "ce1_embd_parquet")

    @staticmethod
    def calculate_sha256(buffer: bytes) -> str:
        """Return the digest of bytes in hexadecimal digits."""
        return hashlib.sha256(buffer).hexdigest()

    def process(self, task: VideoTask) -> VideoTask:
        """Write the clips; their files are not in the task afterwards.

        Raises:
            ValueError: the film is not in `input_path`.
            DataError: a file cannot be written.
        """
        video = task.data
        name = self._below(video.input_path)
        for clips, filtered in ((video.clips, False), (video.filtered_clips, True)):
            documents = self._metadata(clips)
            for clip in clips:
                self._clip(clip, video, documents[clip.uuid], filtered=filtered)
        self._embeddings(video)
        self._film(video, name)
        for clip in (*video.clips, *video.filtered_clips):
            clip.buffer = clip.cosmos_embed1_embedding = None
            for window in clip.windows:
                window.mp4_bytes = window.webp_bytes = None
                for held in (window.llm_inputs, window.caption, window.enhanced_caption):
                    held.clear()
        if self.verbose:
            log_progress("Wrote %d clips of %s to %s", len(video.clips), video.input_path, self.output_path)
        return task

    def _metadata(self, clips: list[Clip]) -> dict[uuid.UUID, dict[str, Any]]:
        """What the containers of clips say."""
        with_file = [(clip, clip.buffer) for clip in clips if clip.buffer]
        found: dict[uuid.UUID, dict[str, Any]] = {clip.uuid: {} for clip in clips}
        for (clip, data), answer in zip(with_file, looked_at(self._probe, [d for _, d in with_file]), strict=True):
            try:
                found[clip.uuid] = about_clip(metadata_of(answer), data)
            except ValueError as error:
                _log.warning("Clip %s: %s", clip.uuid, error)
                clip.errors["metadata"] = str(error)
        return found

    def _put(self, name: str, content: bytes) -> None:
        with Directory(self.output_path).writing(name) as file:
            file.write(content)

    def _put_json(self, name: str, content: Mapping[str, Any]) -> None:
        self._put(name, json.dumps(content, indent=4, cls=JsonEncoderCustom).encode())

    def _clip(self, clip: Clip, video: Video, found: Mapping[str, Any], *, filtered: bool) -> None:
        """Write a clip and what belongs to it."""
        put = _nothing if self.dry_run else self._put
        folder = "filtered_clips" if filtered else "clips"
        counts = ClipStats(num_passed=int(not filtered), num_transcoded=int(bool(clip.buffer)))
        if not clip.buffer:
            _log.warning("Clip %s from %s has no buffer, and is not written", clip.uuid, clip.source_video)
        elif self.upload_clips:
            put(f"{folder}/{clip.uuid}.mp4", clip.buffer)
        if not filtered:
            counts.num_with_webp = int(any(window.webp_bytes for window in clip.windows))
            for window in clip.windows:
                if window.webp_bytes:
                    put(f"previews/{clip.uuid}/{window.start_frame}_{window.end_frame}.webp", window.webp_bytes)
                elif self.generate_previews:
                    _log.error("Clip %s window %d has no webp", clip.uuid, window.start_frame)
            if clip.cosmos_embed1_embedding is not None:
                counts.num_with_embeddings = 1
                put(f"ce1_embd/{clip.uuid}.pickle", pickle.dumps(np.asarray(clip.cosmos_embed1_embedding)))
            elif self.generate_embeddings and self.embedding_algorithm.startswith("cosmos-embed1"):
                _log.error("Clip %s from %s has no Cosmos-Embed1 embedding", clip.uuid, clip.source_video)
        document = self._document(clip, video, found, folder)
        put(f"metas/v0/{clip.uuid}.json", json.dumps(document, indent=4, cls=JsonEncoderCustom).encode())
        models = self.caption_models or []
        counts.num_with_caption = int(any(model in window.caption for window in clip.windows for model in models))
        counts.total_clip_duration = counts.max_clip_duration = clip.duration
        video.clip_stats.combine(counts)

    def _document(self, clip: Clip, video: Video, found: Mapping[str, Any], folder: str) -> dict[str, Any]:
        document: dict[str, Any] = {
            "span_uuid": str(clip.uuid),
            "source_video": str(clip.source_video),
            "duration_span": list(clip.span),
            "width_source": video.metadata.width,
            "height_source": video.metadata.height,
            "framerate_source": video.metadata.framerate,
            "clip_location": self._get_output_path(self.output_path, f"{folder}/{clip.uuid}.mp4"),
            **found,
        }
        if clip.motion_score_global_mean is not None:
            document["motion_score"] = {
                "global_mean": clip.motion_score_global_mean,
                "per_patch_min_256": clip.motion_score_per_patch_min_256,
            }
        if clip.aesthetic_score is not None:
            document["aesthetic_score"] = clip.aesthetic_score
        if clip.errors:
            document["errors"] = list(clip.errors)
        document["windows"] = [self._window(window) for window in clip.windows]
        document["valid"] = bool(clip.buffer and clip.windows)
        return document

    def _window(self, window: Any) -> dict[str, Any]:
        record = {"start_frame": window.start_frame, "end_frame": window.end_frame}
        for models, captions, suffix in (
            (self.caption_models, window.caption, "caption"),
            (self.enhanced_caption_models, window.enhanced_caption, "enhanced_caption"),
        ):
            record |= {f"{model}_{suffix}": captions[model] for model in models or [] if model in captions}
        return record

    def _embeddings(self, video: Video) -> None:
        """Write the embeddings of all clips in one file."""
        with_one = [clip for clip in video.clips if clip.cosmos_embed1_embedding is not None]
        if not with_one or self.dry_run:
            return
        vectors = [np.asarray(clip.cosmos_embed1_embedding).reshape(-1).tolist() for clip in with_one]
        table = pa.table({"id": [str(clip.uuid) for clip in with_one], "embedding": vectors})
        file = io.BytesIO()
        pq.write_table(table, file)
        name = uuid.uuid5(uuid.NAMESPACE_URL, f"{video.input_path}_{video.clip_chunk_index}")
        self._put(f"ce1_embd_parquet/{name}.parquet", file.getvalue())

    def _below(self, path: str) -> str:
        """The path of a film below that of all.

        Raises:
            ValueError: it is elsewhere.
        """
        for root in (self.input_path, os.path.abspath(self.input_path)):
            if path.startswith(root):
                return path[len(root) :].lstrip("/")
        raise ValueError(f"Input video path {path} does not start with {self.input_path}")

    def _film(self, video: Video, name: str) -> None:
        """Write the documents of a film and of the part of it."""
        path, about, stats = video.input_path, video.metadata, video.clip_stats
        if video.clip_chunk_index == 0:
            of_film = ("height", "width", "framerate", "num_frames", "duration", "video_codec", "pixel_format")
            document = {"video": path, **{key: getattr(about, key) for key in of_film}}
            document |= {"audio_format": about.audio_codec, "num_total_clips": video.num_total_clips}
            document |= {"num_clip_chunks": video.num_clip_chunks, **({"errors": video.errors} if video.errors else {})}
            self._put_json(f"processed_videos/{name}.json", document)
        filtered = ("filtered_by_motion", "filtered_by_aesthetic")
        counts = (*filtered, "passed", "transcoded", "with_embeddings", "with_caption", "with_webp")
        part = {
            "video": path,
            "clip_chunk_index": video.clip_chunk_index,
            **{f"num_clips_{count}": getattr(stats, f"num_{count}") for count in counts},
            "total_clip_duration": stats.total_clip_duration,
            "max_clip_duration": stats.max_clip_duration,
            "clips": [str(clip.uuid) for clip in video.clips],
            "filtered_clips": [str(clip.uuid) for clip in video.filtered_clips],
            "all_windows": _captions(video, "caption", self.caption_models),
            "all_windows_enhanced_caption": _captions(video, "enhanced_caption", self.enhanced_caption_models),
        }
        self._put_json(f"processed_clip_chunks/{name}_{video.clip_chunk_index}.json", part)


def _nothing(name: str, content: bytes) -> None:
    """Write nothing."""


def _captions(video: Video, kind: str, models: list[str] | None) -> dict[str, dict[str, str]]:
    """The preferred caption of each window, by clip."""
    found: dict[str, dict[str, str]] = {}
    for clip in video.clips:
        windows = found[str(clip.uuid)] = {}
        for window in clip.windows:
            captions = getattr(window, kind)
            model = next((model for model in models or [] if model in captions), None)
            if model is not None:
                windows[f"{window.start_frame}_{window.end_frame}"] = captions[model]
    return found

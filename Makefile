# The front door. `make help` lists what there is; each target installs what it needs first.
JOBS ?= $(shell nproc)
SECONDS ?= 60
DATA_DIR ?=
E2E_WORKERS ?= 4
RELEASE := build/release
VENV := build/venv

.DEFAULT_GOAL := help
.PHONY: help deps deps-check browser-deps python-deps build run test test-asan test-tsan cluster cuda-toolkit cuda test-cuda e2e e2e-kind conformance \
        fuzz bench \
        bench-quick bench-peers images test-images microbench tidy thread-safety format format-check layering clean

help:  ## list these targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

deps:  ## install the missing Debian packages of cmake/packages.txt (nothing to do: 0.1 s)
	@sh cmake/deps.sh build

deps-check:  ## the same, and the tools of `make test-asan`, `make fuzz`, `make tidy` and `make format`
	@sh cmake/deps.sh build check

browser-deps: deps  ## install Chromium: `make test` then tries the operator's page in a real browser
	@sh cmake/deps.sh browser

python-deps: deps  ## TensorFlow and TensorBoard in build/venv: tests then read our files with them
	@sh cmake/python_deps.sh $(VENV) cmake/requirements-test.txt

build: deps  ## build everything into build/release
	@cmake --preset release -Wno-dev >/dev/null
	@cmake --build --preset release -j $(JOBS)

run: deps  ## train 1 ps + 2 workers on synthesised digits (or DATA_DIR=FOLDER with idx files)
	@JOBS=$(JOBS) sh cmake/run.sh "$(DATA_DIR)"

test: build  ## build and run every test
	@sh cmake/test.sh release $(JOBS)
	@test -x $(VENV)/bin/python || \
	  echo "Tests that read our files with TensorFlow were skipped: make python-deps, then make test."
	@command -v chromedriver >/dev/null || \
	  echo "The operator's page was not tried in a browser: make browser-deps, then make test."

test-asan: deps-check  ## the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@cmake --preset asan -Wno-dev >/dev/null
	@cmake --build --preset asan -j $(JOBS)
	@sh cmake/test.sh asan $(JOBS)

test-tsan: deps  ## the tests under ThreadSanitizer
	@cmake --preset tsan -Wno-dev >/dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@sh cmake/test.sh tsan $(JOBS)
	@echo "Clusters of processes and the API server were left out; ctest --preset tsan-all has them too (20 min)."

cuda-toolkit: deps  ## a CUDA 13.0 toolkit in build/cuda-toolkit, for machines without one (530 MB, once)
	@sh cmake/cuda_toolkit.sh build/cuda-toolkit

cuda: deps  ## build the GPU plug-in build/cuda/libtrainer_cuda.so with this machine's nvcc, else with cuda-toolkit's
	@test -n "$$CUDACXX" || command -v nvcc >/dev/null || $(MAKE) --no-print-directory cuda-toolkit
	@cmake --preset cuda -Wno-dev >/dev/null
	@cmake --build --preset cuda -j $(JOBS) --target trainer_cuda_plugin trainer_cublaslt_test

test-cuda: build cuda  ## the plug-in beside the trainer on this machine, and on a GPU where there is one
	@TRAINYARD_CUDA_PLUGIN=build/cuda/libtrainer_cuda.so $(RELEASE)/trainer_gpu_test --gtest_brief=1
	@build/cuda/trainer_cublaslt_test --gtest_brief=1
	@python3 trainer/devices/devices_test.py $(RELEASE)/trainer --real=build/cuda/libtrainer_cuda.so

cluster: deps  ## build what the tests' clusters are made of, and Helm (once, 10 min), and say how to start one
	@python3 e2e/control_plane.py build
	@python3 e2e/local_cluster.py build
	@echo "API server alone: e2e/control_plane.py up | down; with real nodes: e2e/local_cluster.py up | down"

e2e: build  ## real jobs in real pods on a cluster of this machine (root; ARGS='-k NAME' or pytest's other flags)
	@test build/images/trainer.tar -nt $(RELEASE)/trainer -a \
	  build/images/operator.tar -nt $(RELEASE)/trainyard-operator || $(MAKE) --no-print-directory images ARGS=
	@sh cmake/python_deps.sh build/venv-e2e e2e/requirements.txt
	@build/venv-e2e/bin/python -m pytest e2e/pods -n $(E2E_WORKERS) --dist worksteal $(ARGS)

e2e-kind: override ARGS += --provider kind
e2e-kind: e2e  ## the same on a cluster of the genuine kind, on a Docker daemon of its own

conformance: build  ## run the integration suite and write docs/conformance.md
	@python3 e2e/run.py --operator $(RELEASE)/trainyard-operator --gtests $(RELEASE) --report docs/conformance.md

images: build  ## the images of operator and trainer in build/images, of the programs built (ARGS=--help)
	@python3 images/build.py --build $(RELEASE) $(ARGS)

test-images: images  ## what is in the images, and their programs in a sandbox (needs root)
	@python3 images/test_images.py

fuzz: deps-check  ## run each fuzzer for SECONDS=60
	@cmake --preset fuzz -Wno-dev >/dev/null
	@cmake --build --preset fuzz -j $(JOBS) --target fuzzers
	@bash cmake/fuzz.sh build/fuzz $(SECONDS) $(JOBS)

bench: build  ## our trainer beside TensorFlow, PyTorch and JAX where they are installed (ARGS=--help)
	@python3 bench/run.py --bin $(RELEASE) $(ARGS)

bench-quick: build  ## our trainer alone, short windows, under 2 minutes
	@python3 bench/run.py --bin $(RELEASE) --quick $(ARGS)

bench-peers: deps  ## install the peers into build/peers (about 3 GB) for `make bench`
	@sh bench/peers.sh build/peers

microbench: build  ## microbenchmarks of the step, the ps round trip and the input pipeline
	@sh bench/micro.sh $(RELEASE)

tidy: deps-check  ## clang-tidy over all of our sources
	@cmake --preset clang -Wno-dev >/dev/null
	@cmake --build --preset clang -j $(JOBS) --target generated
	@bash cmake/tidy.sh build/clang $(JOBS)

thread-safety: deps-check  ## build once with clang for its -Wthread-safety
	@cmake --preset clang -Wno-dev >/dev/null
	@cmake --build --preset clang -j $(JOBS)

format: deps-check  ## lay out all sources with clang-format
	@git ls-files '*.cc' '*.h' '*.cu' | xargs clang-format-19 -i

format-check: deps-check  ## fail where a source is not laid out by clang-format
	@git ls-files '*.cc' '*.h' '*.cu' | xargs clang-format-19 --dry-run --Werror

layering: deps  ## check that every include follows docs/architecture.md
	@cmake -DROOT=. -P cmake/check_layering.cmake

clean:  ## remove build/ (and with it the results of `make run`)
	rm -rf build

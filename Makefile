# Two commands matter: `make demo` and `make test`.  Both prepare everything they need on a fresh machine.
#
#   make test                    environment, build, the tests: of products of parameters, each pair of values
#   make nightly                 the tests with all products of parameters whole, and those that are slow
#   make test PYTHON=python3.12 TORCH=2.15.0   another pair, in an environment of its own in build/envs; so for all below
#   make world                   a tenth of the tests over every environment there is (PART=1/10), and a table
#   make test USE_SYSTEM=1       use PYTHON as it is: nothing is installed, the core is built in place
#   make test TEST_JOBS=8        over eight processes at a time; without it, as many as there are cores
#   tools/run_tests.py --part 1/10   a tenth of the tests, spread over all files
#   make test-mirror             all tests, each guard's plain Python meaning run beside the native one
#   make sanitize                all tests, the core built with AddressSanitizer and UndefinedBehaviorSanitizer
#   make law PROGRAMS=20000      the big run of the law test
#   make matrices                every kind of object x every touch x every change, each compared with eager
#   make wheel                   a wheel for this Python and torch, in build/wheel, tried in an environment without a compiler
#   make wheels                  a wheel for each CPython of this machine with a core for each torch of it, in build/wheels
#   make newcomer                the first hour of a new user: the wheel, every program of the documentation, examples, site
#   make docs                    the documentation site, in build/site
#   make reasons                 the pages of docs/reasons, from their declarations
#   make pictures                the pictures of docs/design.md, from the imports in the source, and of docs/benchmarks.md, from docs/figures
#   make corpus                  programs of packages from PyPI (benchmarks/corpus; install those that you want), and docs/corpus.md
#   make bench                   capture time and call overhead beside TorchDynamo
#   make profile                 where the time of a capture and of a call goes

PYTHON ?= $(shell command -v python3.11 || command -v python3)
TORCH ?=
USE_SYSTEM ?=
PART ?= 1/10
TEST_JOBS ?= $(shell nproc 2>/dev/null || echo 1)
PROGRAMS ?= 2000
JOBS ?= 2

export OMP_NUM_THREADS ?= 1
export TRANSFORMERS_VERBOSITY ?= error
export HF_HUB_OFFLINE ?= 1
export PYTHONPATH := $(CURDIR)/src

RUN = "$$(cat build/python)"
NATIVE = $(wildcard csrc/*.cpp csrc/*.h)

.PHONY: corpus profile wheel wheels world newcomer demo test nightly test-mirror sanitize law matrices bench docs reasons pictures figures build clean FORCE

demo: build/built
	$(RUN) demo/demo.py

test: build/built
	$(RUN) tools/run_tests.py --jobs $(TEST_JOBS)

nightly: build/built
	$(RUN) tools/run_tests.py --jobs $(TEST_JOBS) --whole

test-mirror: build/built
	FRAMELIFT_VERIFY_GUARDS=1 $(RUN) tools/run_tests.py --jobs $(TEST_JOBS) $(SELECT)

# Another build of the core beside the usual one.  The sanitizer's library has to be the first of the process, and libstdc++ there
# with it, for it to follow C++ exceptions.  Leaks are not looked for: CPython and torch keep much to the end of the process.
# Frames are larger: programs that call themselves to CPython's limit need a larger stack.
SANITIZED = $(CURDIR)/build/sanitize/lib
SANITIZERS = $$($(CC) -print-file-name=libasan.so):$$($(CC) -print-file-name=libstdc++.so.6)
sanitize: build/python
	FRAMELIFT_SANITIZE=1 $(RUN) setup.py --quiet build --build-temp build/sanitize/temp --build-lib $(SANITIZED)
	ulimit -s 65536; PYTHONPATH=$(SANITIZED) ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 LD_PRELOAD=$(SANITIZERS) \
	    $(RUN) tools/run_tests.py --jobs $(TEST_JOBS) $(SELECT)

law: build/built
	$(RUN) tests/law/run.py --programs $(PROGRAMS) --jobs $(JOBS)

matrices: build/built
	$(RUN) tests/matrices/run.py --jobs $(JOBS)

corpus: build/built
	$(RUN) benchmarks/corpus/run.py --page docs/corpus.md

bench: build/built
	$(RUN) benchmarks/capture.py
	$(RUN) benchmarks/call.py

profile: build/built
	$(RUN) benchmarks/profile_parts.py

wheel: build/python
	$(RUN) tools/newcomer.py --only install

wheels:
	$(PYTHON) tools/wheels.py

world:
	$(PYTHON) tools/world.py --jobs $(TEST_JOBS) --part $(PART) $(ENVS)

newcomer: build/python
	$(RUN) tools/newcomer.py

docs: build/built reasons
	$(RUN) tools/docs.py

reasons: build/built
	$(RUN) tools/reason_pages.py

pictures:
	$(PYTHON) tools/architecture.py
	$(PYTHON) tools/plots.py

figures:
	$(PYTHON) tools/layout_figures.py src/framelift framelift csrc

build: build/built

# The environment: see tools/prepare.py.  It notes the chosen interpreter in build/python.
# Asked every time (it is quick when nothing changed), written only when the choice changes.
build/python: FORCE
	@$(PYTHON) tools/prepare.py $(if $(USE_SYSTEM),--system) $(if $(TORCH),--torch $(TORCH))

# The core is built in place, so that an edit of Python files needs no new build and no environment is changed.
# Python's compiled files are made as an installation makes them: where PYTHONDONTWRITEBYTECODE is set, each process
# would else compile all files again (a second and more).
build/built: build/python setup.py $(NATIVE)
	$(RUN) setup.py --quiet build_ext --inplace
	$(RUN) -m compileall -q src/framelift
	@touch $@

clean:
	rm -rf build .venv src/framelift/native src/*.egg-info

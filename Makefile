# What can be made, and what it needs. Debian packages that are missing are installed (as root) or named (else).

PREFIX ?= /usr/local
DESTDIR ?=
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

# The libraries' sonames end with the version of the layout that the headers are for.
LAYOUT := $(shell sed -n 's/^.define SORDINO_LAYOUT_VERSION //p' crates/recording/probe-c/include/sordino/tracepoint.h)
LIBRARY := libsordino.so.$(LAYOUT)
FUNCTIONS := libsordino-functions.so.$(LAYOUT)

# Cargo puts it where CARGO_TARGET_DIR says.
RELEASE = $(or $(CARGO_TARGET_DIR),target)/release

.PHONY: all build build-tables demo test test-quick test-export test-attacks test-long test-vm bench install uninstall clean setup

all: build

## build: the program and its libraries, in target/release
build: setup-build
	cargo build --release --locked -p sordino-cli -p sordino-c
	scripts/functions $(RELEASE)

## build-tables: sordino-sql, for 'sordino sql' and exports to Parquet; takes longer than everything else together
build-tables: setup-build
	cargo build --release --locked --manifest-path tables/Cargo.toml --target-dir $(or $(CARGO_TARGET_DIR),target)

## demo: record a real-time loop while it is disturbed, and explain its longest gaps
demo: setup-demo build
	$(RELEASE)/sordino demo

## test: every test, with all that it needs
test: setup-test
	scripts/test

## test-quick: after an edit, what three minutes allow: form, every crate's own tests, some whole programs
test-quick: setup-test
	scripts/test quick

## test-export: what needs DataFusion, and Python's libraries, which are fetched
test-export: setup-test-export build build-tables
	scripts/test-export

## test-attacks: attacks on a recorder with all rights, as root
test-attacks: setup-test
	cargo test --locked -p sordino-tests --test attacks

## test-long: models at larger bounds, mutants, sanitizers, an hour of storms
test-long: setup-test
	scripts/test-long

## test-vm: scenarios in a virtual machine with PREEMPT_RT kernels
test-vm:
	scripts/test-vm

## bench: everything that is measured, against its peers, as a table
bench: setup-bench build
	scripts/bench

## install: what `make build` built, to PREFIX (default /usr/local), without debug information
SHARE = $(DESTDIR)$(PREFIX)/share
UNITS = $(DESTDIR)$(PREFIX)/lib/systemd/system
COMPLETIONS = bash:bash-completion/completions/sordino zsh:zsh/site-functions/_sordino \
	fish:fish/vendor_completions.d/sordino.fish

install:
	@test -x $(RELEASE)/sordino -a -e $(RELEASE)/libsordino_c.so -a -e $(RELEASE)/libsordino-functions.so || \
		{ echo "nothing is built in $(RELEASE); first build it: make build" >&2; exit 2; }
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/lib/cmake/sordino
	install -d $(DESTDIR)$(PREFIX)/include/sordino $(SHARE)/man/man1 $(UNITS)
	install -m 755 $(RELEASE)/sordino $(DESTDIR)$(PREFIX)/bin/sordino
	test ! -e $(RELEASE)/sordino-sql || install -m 755 $(RELEASE)/sordino-sql $(DESTDIR)$(PREFIX)/bin/sordino-sql
	install -m 755 $(RELEASE)/libsordino_c.so $(DESTDIR)$(PREFIX)/lib/$(LIBRARY)
	install -m 755 $(RELEASE)/libsordino-functions.so $(DESTDIR)$(PREFIX)/lib/$(FUNCTIONS)
	install -m 644 $(RELEASE)/libsordino-functions.a $(DESTDIR)$(PREFIX)/lib/libsordino-functions.a
	# A third of the symbols are labels of tables for unwinding, which name no function.
	strip --strip-debug --wildcard --strip-symbol='GCC_except_table*' $(DESTDIR)$(PREFIX)/bin/sordino
	strip --strip-debug $(DESTDIR)$(PREFIX)/lib/$(LIBRARY) \
		$(DESTDIR)$(PREFIX)/lib/$(FUNCTIONS) $(DESTDIR)$(PREFIX)/lib/libsordino-functions.a
	ln -sf $(LIBRARY) $(DESTDIR)$(PREFIX)/lib/libsordino.so
	ln -sf $(FUNCTIONS) $(DESTDIR)$(PREFIX)/lib/libsordino-functions.so
	scripts/archive $(RELEASE)/libsordino_c.so $(RELEASE)/libsordino_c.a $(DESTDIR)$(PREFIX)/lib/libsordino.a
	install -m 644 crates/recording/probe-c/include/sordino/*.h adapters/boost-fiber/sordino/boost_fiber.hpp \
		$(DESTDIR)$(PREFIX)/include/sordino
	for file in sordino sordino-functions; do \
		sed 's|@PREFIX@|$(PREFIX)|; s|@VERSION@|$(VERSION)|' packaging/$$file.pc.in \
			> $(DESTDIR)$(PREFIX)/lib/pkgconfig/$$file.pc || exit; \
	done
	for file in sordinoConfig sordinoConfigVersion; do \
		sed 's|@VERSION@|$(VERSION)|; s|@LIBRARY@|$(LIBRARY)|; s|@FUNCTIONS@|$(FUNCTIONS)|' packaging/$$file.cmake.in \
			> $(DESTDIR)$(PREFIX)/lib/cmake/sordino/$$file.cmake || exit; \
	done
	for unit in sordino@ sordino-grant@; do \
		sed 's|@PREFIX@|$(PREFIX)|' packaging/systemd/$$unit.service.in > $(UNITS)/$$unit.service || exit; \
	done
	for page in $$($(RELEASE)/sordino man-page); do \
		$(RELEASE)/sordino man-page $$page > $(SHARE)/man/man1/$$page.1 || exit; \
	done
	for completion in $(COMPLETIONS); do \
		file=$(SHARE)/$${completion#*:}; \
		install -d $${file%/*} && $(RELEASE)/sordino completion $${completion%%:*} > $$file || exit; \
	done
ifeq ($(DESTDIR)$(filter /usr /usr/local,$(PREFIX)),)
	@echo "$(PREFIX) is not where programs are looked for; in a shell that uses it:"
	@echo "  export PATH=$(PREFIX)/bin:\$$PATH"
	@echo "  export PKG_CONFIG_PATH=$(PREFIX)/lib/pkgconfig LD_LIBRARY_PATH=$(PREFIX)/lib"
endif

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/sordino $(DESTDIR)$(PREFIX)/bin/sordino-sql $(DESTDIR)$(PREFIX)/lib/libsordino.* \
		$(DESTDIR)$(PREFIX)/lib/libsordino-functions.* $(DESTDIR)$(PREFIX)/lib/pkgconfig/sordino.pc \
		$(DESTDIR)$(PREFIX)/lib/pkgconfig/sordino-functions.pc $(UNITS)/sordino@.service $(UNITS)/sordino-grant@.service \
		$(SHARE)/man/man1/sordino.1 $(SHARE)/man/man1/sordino-*.1 \
		$(foreach completion,$(COMPLETIONS),$(SHARE)/$(lastword $(subst :, ,$(completion))))
	rm -rf $(DESTDIR)$(PREFIX)/include/sordino $(DESTDIR)$(PREFIX)/lib/cmake/sordino

clean:
	rm -rf target build

setup-%:
	@scripts/setup $*

# `make demo` shows what locktree does, `make test` tests it in a few minutes, and `make prove` adds the checks that take longer.
GO ?= go
FUZZTIME ?= 15s
# Compiled packages without the paths of this machine can be shared by clones of the repository.
export GOFLAGS ?= -trimpath
TOOL = tool -modfile=$(CURDIR)/.ci/tools/go.mod
# recipes/prom and recipes/otel are modules of their own, so that a program that imports recipes does not get their dependencies.
MODULES = . recipes/prom recipes/otel
# These are modules of examples, and modules whose tests need other services or a browser.
SERVICES = examples/monitoring examples/compare cmd/locktree/internal/page/browser packaging

# make release writes to bin/release; make push sends the image to IMAGE.
RELEASE = bin/release
IMAGE ?= ghcr.io/locktree/locktree

.PHONY: demo test prove check lint setup services build release publish push fuzz bench compare screenshots golden clean

demo: ## plan, apply, contend, refuse and destroy, on the embedded server, in one process
	@$(GO) run ./cmd/locktree demo

test: setup ## every day: installs what the tests need, then runs all tests except the proofs, real servers included; races the packages in which goroutines share state
	@GO='$(GO)' .ci/tests everyday

prove: services ## the rest: check and lint, the race detector on the other concurrent packages, and the proofs: sweeps of every byte, seed and crash point, the zoo, the soak, the partitions, the runbooks, the drill, the page in a browser, an installed release, other lock services, the suites of other clients
	@$(MAKE) --no-print-directory check lint MODULES='$(MODULES) $(SERVICES)'
	@GO='$(GO)' .ci/tests proofs

setup: ## as root, installs ZooKeeper, its clients and a Kerberos center from Debian if they are missing; otherwise prints what to install
	@.ci/setup

services: ## as setup, and also Prometheus, a browser, rpm, and the other lock services of examples/compare
	@.ci/setup services

check: ## formatting, vet, module files; only make prove runs it, because on a new machine it compiles and downloads first
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	@set -e; for m in $(MODULES); do cd $(CURDIR)/$$m; echo "== $$m"; \
	  $(GO) vet ./...; $(GO) mod tidy -diff; $(GO) mod verify; done

lint: ## staticcheck, and actionlint for the workflows; only make prove runs it, because on a new machine it compiles for a minute first
	@set -e; for m in $(MODULES); do cd $(CURDIR)/$$m; echo "== staticcheck $$m"; $(GO) $(TOOL) staticcheck ./...; done
	$(GO) $(TOOL) actionlint $$(git ls-files '.github/workflows/*.yml' 'examples/*/.github/workflows/*.yml')

build: ## bin/locktree
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/locktree ./cmd/locktree

release: ## VERSION=v0.1.0: bin/release with archives for each platform, .deb, .rpm, an OCI image, bills of materials and checksums; see packaging/README.md
	@test -z "$$(git status --porcelain)" || { echo "A release is built of a commit. Commit, stash or ignore these first:"; git status --short; exit 1; }
	@rm -rf $(RELEASE)
	@cd packaging && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(GO) run . -version=$(VERSION) -commit=$$(git rev-parse HEAD) -out=../$(RELEASE)

publish: ## VERSION=v0.1.0: makes a GitHub release of the files of make release; needs gh
	gh release create $(VERSION) --verify-tag --title=$(VERSION) --notes-file=CHANGELOG.md $(if $(findstring -,$(VERSION)),--prerelease) $(RELEASE)/*

push: ## VERSION=v0.1.0 IMAGE=registry/name: pushes the image of make release; needs skopeo and a login
	skopeo copy --all oci-archive:$(RELEASE)/locktree_$(VERSION:v%=%)_oci.tar docker://$(IMAGE):$(VERSION:v%=%)

fuzz: ## every fuzz target for FUZZTIME each
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzzminimizetime 50x -fuzztime $(FUZZTIME) $$p || exit 1; \
	  done; done

bench: setup ## prints figures, and asserts none; those of large trees take some minutes, because each command is a process
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./...

compare: services ## compares lock services in five minutes, and writes examples/compare/RESULTS.md. QUICK=1 takes about one minute, and writes only bin/compare; SERVERS=3 runs an ensemble, and writes only bin/compare3
	cd examples/compare && $(GO) run . -servers $(or $(SERVERS),1) $(if $(QUICK),-quick) -out ../../bin/compare$(SERVERS) $(if $(QUICK)$(filter-out 1,$(SERVERS)),,&& cp ../../bin/compare$(SERVERS)/page.md RESULTS.md)

screenshots: services ## makes the screenshots of the page in docs/operating.md again; look at them
	cd cmd/locktree/internal/page/browser && GOLDEN=1 $(GO) test -count=1 -run TestDocsShowEachScreenshot .

golden: ## rewrites the expected output of the everyday tests: diagnostics, plans, status, documents, scripts, the generated parts of README.md and docs; then read the diff, and fix tests that fail
	@export GOLDEN=1 TESTS=everyday; test='$(GO) test -vet=off -count=1'; failed=0; \
	$$test -p 1 ./config/... ./cmd/locktree/internal/... || failed=1; \
	$$test ./cmd/locktree -run '^(TestScript|TestWhoMayDoWhat|TestEveryWayInServesEveryCommandAndRecipe)$$' || failed=1; \
	$$test ./examples -run '^TestReadme' || failed=1; \
	exit $$failed

clean:
	rm -rf bin

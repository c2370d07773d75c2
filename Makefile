# `make demo` shows what locktree does, `make test` tests it in a few minutes, and `make prove` adds what takes longer.
GO ?= go
FUZZTIME ?= 15s
# Without the paths of this machine, clones of the repository share what they have compiled.
export GOFLAGS ?= -trimpath
TOOL = tool -modfile=$(CURDIR)/.ci/tools/go.mod
# Modules of their own: what they link must not reach a program that imports recipes.
MODULES = . recipes/prom recipes/otel
# And those of examples, and those whose tests need other services, or a browser.
SERVICES = examples/monitoring examples/compare cmd/locktree/internal/page/browser packaging

# A release goes to bin/release; its image to IMAGE.
RELEASE = bin/release
IMAGE ?= ghcr.io/locktree/locktree

.PHONY: demo test prove check lint setup services build release publish push fuzz bench compare screenshots golden clean

demo: ## plan, apply, contend, refuse and destroy, on the embedded server, in one process
	@$(GO) run ./cmd/locktree demo

test: setup ## every day: installs what it needs, then runs all tests but the proofs, real servers included; under the race detector where goroutines share state
	@GO='$(GO)' .ci/tests everyday

prove: services ## the rest: check and lint, the race detector on what else is concurrent, and the long ones: sweeps of every byte, seed and crash point, the zoo, the soak, the partitions, the runbooks, the drill, the page in a browser, an installed release, other lock services, the suites of other clients
	@$(MAKE) --no-print-directory check lint MODULES='$(MODULES) $(SERVICES)'
	@GO='$(GO)' .ci/tests proofs

setup: ## ZooKeeper, its clients and a Kerberos center from Debian when missing (root), or what to install
	@.ci/setup

services: ## what setup does, Prometheus, a browser, rpm, and the other lock services of examples/compare
	@.ci/setup services

check: ## formatting, vet, module files; make prove runs it, because on a new machine it compiles and downloads first
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	@set -e; for m in $(MODULES); do cd $(CURDIR)/$$m; echo "== $$m"; \
	  $(GO) vet ./...; $(GO) mod tidy -diff; $(GO) mod verify; done

lint: ## staticcheck, and actionlint for the workflows; make prove runs it, because on a new machine it compiles for a minute first
	@set -e; for m in $(MODULES); do cd $(CURDIR)/$$m; echo "== staticcheck $$m"; $(GO) $(TOOL) staticcheck ./...; done
	$(GO) $(TOOL) actionlint $$(git ls-files '.github/workflows/*.yml' 'examples/*/.github/workflows/*.yml')

build: ## bin/locktree
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/locktree ./cmd/locktree

release: ## VERSION=v0.1.0: bin/release with archives for each platform, .deb, .rpm, an OCI image, bills of materials and checksums; packaging/README.md
	@test -z "$$(git status --porcelain)" || { echo "A release is built of a commit. Commit, stash or ignore these first:"; git status --short; exit 1; }
	@rm -rf $(RELEASE)
	@cd packaging && SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(GO) run . -version=$(VERSION) -commit=$$(git rev-parse HEAD) -out=../$(RELEASE)

publish: ## VERSION=v0.1.0: what make release made, as a release of GitHub; needs gh
	gh release create $(VERSION) --verify-tag --title=$(VERSION) --notes-file=CHANGELOG.md $(if $(findstring -,$(VERSION)),--prerelease) $(RELEASE)/*

push: ## VERSION=v0.1.0 IMAGE=registry/name: the image of make release; needs skopeo and a login
	skopeo copy --all oci-archive:$(RELEASE)/locktree_$(VERSION:v%=%)_oci.tar docker://$(IMAGE):$(VERSION:v%=%)

fuzz: ## every fuzz target for FUZZTIME each
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "== $$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzzminimizetime 50x -fuzztime $(FUZZTIME) $$p || exit 1; \
	  done; done

bench: setup ## figures, printed and never asserted; those of large trees, each command a process, take some minutes
	$(GO) test -run '^$$' -bench . -benchtime 1x -timeout 30m ./...

compare: services ## lock services beside each other, in five minutes; writes examples/compare/RESULTS.md. QUICK=1 takes about one and writes bin/compare only; SERVERS=3 for an ensemble
	cd examples/compare && $(GO) run . -servers $(or $(SERVERS),1) $(if $(QUICK),-quick) -out ../../bin/compare$(SERVERS) $(if $(QUICK)$(filter-out 1,$(SERVERS)),,&& cp ../../bin/compare$(SERVERS)/page.md RESULTS.md)

screenshots: services ## those of the page in docs/operating.md, made anew; look at them
	cd cmd/locktree/internal/page/browser && GOLDEN=1 $(GO) test -count=1 -run TestScreenshots .

golden: ## rewrite the expected output of the everyday tests: diagnostics, plans, status, documents, scripts, the generated parts of README.md and docs; then read the difference, and see to tests that fail
	@export GOLDEN=1 TESTS=everyday; test='$(GO) test -vet=off -count=1'; failed=0; \
	$$test -p 1 ./config/... ./cmd/locktree/internal/... || failed=1; \
	$$test ./cmd/locktree -run '^(TestScript|TestWhoMayDoWhat|TestEveryWayInServesEveryCommandAndRecipe)$$' || failed=1; \
	$$test ./examples -run '^TestReadme' || failed=1; \
	exit $$failed

clean:
	rm -rf bin

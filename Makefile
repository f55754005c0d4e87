# Everything a person does with the project. `make help` lists it.

GO      ?= go
BIN     := bin
TOOLS   := .tools
# LONG scales the long counts of fault tests: 1 in CI, more in `make soak`.
LONG    ?= 1
FUZZ    ?= 5s
E2E_TIMEOUT ?= 40m

STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help run build test lint e2e conformance bench fuzz check soak clean

help: ## list the targets
	@grep -hE '^[a-z0-9]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9]+):.*## (.*)/  make \1\t\2/' | expand -t 18

run: build ## build, then run the platform with the three apps
	@$(BIN)/platform run

build: ## build the platform and the apps into bin/
	@mkdir -p $(BIN)
	@test -x $(BIN)/platform || echo "building; the first time takes a minute"
	@$(GO) build -o $(BIN)/platform ./cmd/platform
	@for app in weather clock diary; do $(GO) build -o $(BIN)/aurora-$$app ./apps/$$app || exit 1; done

test: ## all Go tests, with the race detector
	$(GO) test -race -timeout 20m ./...

lint: ## formatting, vet, static analysis, module tidiness
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change:"; echo "$$out"; exit 1; }
	$(GO) vet -tags e2e,bench ./...
	$(GO) mod tidy -diff
	$(GO) run $(STATICCHECK) -tags e2e,bench ./...

e2e: build ## third-party servers, a real browser, faults, the conformance suite; needs Node.js, installs the rest
	@./e2e/setup
	AURORA_LONG=$(LONG) $(GO) test -tags e2e -count=1 -timeout $(E2E_TIMEOUT) -v ./e2e/...
	@./e2e/conformance/run

conformance: build ## the official conformance suite against our client and the gateway; installs it from npm
	@./e2e/conformance/run

bench: ## benchmarks as a table of ratios against baselines of the same run
	@./e2e/bench

fuzz: ## each fuzz target for FUZZ (5s)
	@for pkg in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz'); do \
	    echo "$$pkg $$f"; \
	    if out=$$($(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZ) $$pkg 2>&1); then echo "$$out" | tail -1; continue; fi; \
	    echo "$$out"; \
	    case "$$out" in \
	      *"Failing input written"*|*"seed corpus entry"*|*panic:*) exit 1 ;; \
	      *"    context deadline exceeded"*) echo "the fuzzer ran into its own end and found nothing" ;; \
	      *) exit 1 ;; \
	    esac; \
	  done; \
	done

check: lint test fuzz ## what to run before pushing

soak: ## the long counts of every fault test
	$(MAKE) e2e LONG=50 E2E_TIMEOUT=6h

clean: ## remove what was built
	rm -rf $(BIN) $(TOOLS)

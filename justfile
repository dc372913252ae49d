# Commands for contributors; `just` lists them. CONTRIBUTING.md says when to use which.

_default:
    @just --list --unsorted

# Format, lints and the rules for the repository.
check:
    cargo fmt --all -- --check
    .ci/locks
    cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
    cargo test --locked --package samara --test all -- architecture tidy

# The tests of one crate, for example `just test samara-gossipsub`, or of all crates without a name.
test crate="" *filter="":
    {{ if crate == "" { "" } else { "CARGO_INCREMENTAL=1 " } }}cargo test --locked {{ if crate == "" { "--workspace" } else { "--package " + crate } }} --all-features {{ filter }}

# Builds the documentation; warnings are errors.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --all-features --no-deps --document-private-items --keep-going

# Compares built-in scenarios at a reduced size with their golden files: the named ones, or all.
golden *names="":
    cargo build --locked --release --package samara
    tests/golden/check target/release/samara {{ names }}

# Writes new golden files after an intended change of results.
golden-update *names="":
    cargo build --locked --release --package samara
    tests/golden/check target/release/samara --update {{ names }}

# Benchmarks of one crate, for example `just bench samara-sim`.
bench crate *filter="":
    cargo bench --locked --package {{ crate }} -- {{ filter }}

# Compares two commits by their results, as the pull request job does.
compare base="main" head="HEAD":
    docs/ci/compare-commits {{ base }} {{ head }} --out target/compared

# Licences, advisories, sources and duplicate versions.
deny:
    cargo deny --all-features check

# What a pull request has to pass before review.
pre-pr: check docs (golden "peerdas" "gossip-baselines" "cat" "ring" "mix")
    cargo test --locked --workspace

# Everything that CI checks.
ci:
    .ci/run

# Fuzzing, faults with fresh seeds, slow tests and all scenarios at full size; hours.
nightly *parts="":
    .ci/nightly {{ parts }}

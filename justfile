# Recipes for what CONTRIBUTING.md lists. `just` alone shows them.

_list:
    @just --list

# Everything that a change has to pass
ci:
    .ci/run

# All tests, with what they need installed
test *arguments:
    .ci/test {{arguments}}

# The library's own tests: a Rust toolchain is enough
test-library *arguments:
    cargo test --all-features {{arguments}}

fmt:
    cargo fmt --all

# Steps of `ci`, each by itself
lint:
    .ci/run fmt clippy

docs:
    .ci/run docs

# Each feature alone builds
features:
    .ci/run features

# What would be published
package:
    .ci/run package

# The crates in `benches` build
benches:
    .ci/run benches

# Overload with and without protection, on real servers
overload *arguments:
    cargo run --release --example overload -- {{arguments}}

# Real servers under load and faults, for as long as told, such as `just soak 1h`
soak time="10m":
    SOAK={{time}} cargo test -p admission-e2e --all-features --test soak memory_does_not_grow -- --nocapture

# Scenarios in virtual time
simulate *arguments:
    cargo run --release --example simulate -- {{arguments}}

# What a request costs, in instructions
cost:
    cd benches/overhead && cargo run --release -- callgrind

# Whether a request costs what it did, within 2 %
cost-check:
    cd benches/overhead && cargo run --release -- callgrind --check

# What must not change while code only moves
golden *arguments:
    .ci/golden {{arguments}}

# Whether the library builds with the oldest versions that its manifest allows; needs a nightly toolchain
minimal-versions:
    .ci/minimal-versions

# Licences, bans and sources of dependencies
deny:
    cargo deny check bans licenses sources

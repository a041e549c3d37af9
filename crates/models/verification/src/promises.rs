//! The numbered promises of the guarantees page, and the list of the tests that hold them.

/// A promise.
#[derive(Debug)]
pub struct Promise {
    pub number: u32,
    pub title: String,
    pub tests: Vec<String>,
}

/// Reads the promises of the page, each with the tests of the list: lines of a number and the name of a test.
pub fn promises(page: &str, list: &str) -> Vec<Promise> {
    let guarantees = page.split("# Not guaranteed").next().unwrap_or_default();
    let promises = guarantees.lines().filter_map(|line| {
        let (number, text) = line.split_once(". ")?;
        let number = number.parse().ok()?;
        let title = text.strip_prefix("**").and_then(|it| it.split("**").next()).unwrap_or(text);
        let tests = list.lines().filter_map(|line| {
            let (of, test) = line.split_once(' ')?;
            (of.parse() == Ok(number)).then(|| test.trim().to_owned())
        });
        Some(Promise { number, title: title.trim_end_matches('.').to_owned(), tests: tests.collect() })
    });
    let promises: Vec<_> = promises.collect();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let number = line.split(' ').next().and_then(|it| it.parse().ok());
        assert!(promises.iter().any(|it| Some(it.number) == number), "there is no such promise: {line}");
    }
    promises
}

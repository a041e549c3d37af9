//! Every output on the page about the command is what the command says.

use std::path::Path;

use crate::support::{BINARY, Site, bounded, command};

const PAGE: &str = include_str!("../../../../src/docs/cli.md");

/// The blocks of the page in this language.
fn blocks(language: &str) -> impl Iterator<Item = &'static str> {
    let parts = PAGE.split("\n```").skip(1).step_by(2);
    parts.filter_map(move |block| block.strip_prefix(language)?.strip_prefix('\n'))
}

async fn said(folder: &Path, site: &Site, arguments: &str) -> String {
    let mut command = command(BINARY, &[("ADMISSION_URL", &site.url)]);
    command.args(arguments.split_whitespace()).current_dir(folder);
    let output = bounded(arguments, command.output()).await.unwrap();
    String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_page_shows_is_what_the_command_says() {
    let site = Site::busy().await;
    let folder = std::env::temp_dir().join(format!("admission-page-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, text) in ["admission.toml", "mistaken.toml"].into_iter().zip(blocks("toml")) {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let mut found = 0;
    for block in blocks("text") {
        let (line, shown) = block.split_once('\n').unwrap_or((block, ""));
        let arguments = line.strip_prefix("$ admission ").unwrap();
        if arguments == "watch" {
            continue; // a screen under load, which is never twice the same
        }
        let said = said(&folder, &site, arguments).await;
        assert_eq!(shown.trim_end(), said.trim_end(), "{line}\n{said}");
        found += 1;
    }
    std::fs::remove_dir_all(folder).unwrap();
    assert!(found >= 9, "{found} were found");
}

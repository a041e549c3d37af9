//! An instance whose store comes from a configuration.

use tower_admission::{AdmissionBuilder, Reason, Ticket, configuration::Sources};

use crate::redis::support::{eventually, server::Server};

#[tokio::test]
async fn a_file_names_the_store_and_a_reload_says_what_becomes_of_rules_without_it() {
    let mut server = Server::start().await;
    let text = |on_store_failure: &str| {
        format!(
            "[store]\nurl = \"{}\"\nexpiry = \"100ms\"\ntimeout = \"1s\"\non_store_failure = \"{on_store_failure}\"\n\
             [classes.run]\nmax_in_flight = {{ max = 2, when_full = \"reject\" }}",
            server.url()
        )
    };
    let builder = |text: String| {
        AdmissionBuilder::from(Sources::new().toml("admission.toml", text).load().unwrap().into_config())
    };
    let (closed, open) = (builder(text("closed")), builder(text("open")));
    let [one, two] = [builder(text("closed")).build().unwrap(), closed.build().unwrap()];
    let ticket = || Ticket::new().class("run").label("orders");
    let mut held = Vec::new();
    // A server that is used for the first time is quiet for one expiry.
    eventually("two run", async || {
        held.extend(one.admit(ticket()).await.ok());
        held.len() == 2
    })
    .await;
    assert_eq!(two.admit(ticket()).await.unwrap_err().reason(), Reason::LabelCap, "over both of them");
    held.clear();
    server.kill();
    assert_eq!(two.admit(ticket()).await.unwrap_err().reason(), Reason::StoreUnavailable);
    two.reload(open).unwrap();
    assert!(two.admit(ticket()).await.is_ok());
    assert_eq!(one.admit(ticket()).await.unwrap_err().reason(), Reason::StoreUnavailable, "control");
}

//! The protected servers on their own, for clients such as curl, oha, h2load and grpcurl.

use std::net::SocketAddr;

use axum::Router;

use crate::{
    schedule::Scenario,
    servers::{BoxError, Protection, Servers, listen},
};

const CLIENTS: &str = "\
HTTP  http://127.0.0.1:3000/work      at most 400 requests/s, of the tenants noisy, red, green and blue
gRPC  127.0.0.1:3001 demo.Work/Run    the same
state http://127.0.0.1:3002/http/admission and http://127.0.0.1:3002/grpc/admission

  curl -i -H 'x-tenant: red' -H 'x-timeout: 1' http://127.0.0.1:3000/work
  curl -s http://127.0.0.1:3002/http/admission
  oha -z 10s -q 1200 -c 600 -H 'x-tenant: noisy' http://127.0.0.1:3000/work
  h2load -D 10 -c 8 -m 75 -H 'x-tenant: noisy' http://127.0.0.1:3000/work
  grpcurl -plaintext -import-path examples/overload -proto demo.proto -H 'x-tenant: red' -max-time 1 \\
    127.0.0.1:3001 demo.Work/Run

Ctrl-C ends it.
";

/// Serves until Ctrl-C.
pub(crate) async fn serve() -> Result<(), BoxError> {
    let scenario = Scenario::phases(0);
    let protection = Protection::new(&scenario)?;
    let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
    let admin = Router::new()
        .nest_service("/http", protection.http.handle().introspection())
        .nest_service("/grpc", protection.grpc.introspection());
    let listener = listen(local(3_002)).await?;
    let mut servers = Servers::start(&scenario, Some(&protection), [local(3_000), local(3_001)]).await?;
    servers.tasks.spawn(async move { axum::serve(listener, admin).await.map_err(Into::into) });
    print!("{CLIENTS}");
    tokio::select! {
        ended = servers.tasks.join_next() => match ended {
            Some(ended) => ended?,
            None => Ok(()),
        },
        interrupt = tokio::signal::ctrl_c() => interrupt.map_err(Into::into),
    }
}

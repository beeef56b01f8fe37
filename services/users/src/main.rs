//! The `users` program. Everything is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    services_web::main("users", users::start).await
}

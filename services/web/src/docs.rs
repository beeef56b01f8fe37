//! The API's description, and a page to read and try it, both served from this program.

use axum::Router;
use utoipa::openapi::OpenApi;
use utoipa_swagger_ui::SwaggerUi;

/// `/swagger/` and `/swagger/doc.json`.
pub(crate) fn router(api: OpenApi) -> Router {
    SwaggerUi::new("/swagger").url("/swagger/doc.json", api).into()
}

//! The description of a table of routes, as OpenAPI 3.1 has it (<https://spec.openapis.org/oas/v3.1.0>).

use serde_json::{Map, Value, json};

use super::{Access, Kind, Parameter, Route};

/// Describes all routes.
#[must_use]
pub fn describe<H>(table: &[Route<H>], title: &str, about: &str) -> Value {
    let mut paths: Map<String, Value> = Map::new();
    for route in table {
        let path = paths.entry(route.path).or_insert_with(|| json!({}));
        if let Some(methods) = path.as_object_mut() {
            methods.insert(route.method.to_ascii_lowercase(), operation(route));
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": { "title": title, "description": about, "version": env!("CARGO_PKG_VERSION"), "license": { "name": "see the project" } },
        "servers": [{ "url": "/" }],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": { "type": "http", "scheme": "bearer", "description": "What stands in the file api.token of the cluster's folder." },
            },
            "schemas": {
                "Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": { "error": { "type": "string", "description": "What is wrong, and what to do." } },
                },
            },
        },
    })
}

fn operation<H>(route: &Route<H>) -> Value {
    let path_names: Vec<&str> = route.path_names().collect();
    let has_body = matches!(route.method, "POST" | "PUT" | "PATCH");
    let in_path = |parameter: &&Parameter| path_names.contains(&parameter.name);
    let mut parameters: Vec<Value> =
        route.parameters.iter().filter(in_path).map(|parameter| described(parameter, "path")).collect();
    let fields: Vec<&Parameter> = route.parameters.iter().filter(|parameter| !in_path(parameter)).collect();
    let mut operation = json!({
        "operationId": route.id,
        "summary": route.about,
        "tags": [route.tag],
        "responses": {
            "200": { "description": "What it says, or what was done.", "content": { "application/json": { "schema": {} } } },
            "400": failure("The request makes no sense."),
            "401": failure("A token is needed, or another one."),
            "403": failure("Not from this host or origin."),
            "404": failure("There is no such thing."),
            "409": failure("It is not done now, and why."),
        },
    });
    if has_body && !fields.is_empty() {
        let properties: Map<String, Value> =
            fields.iter().map(|field| (field.name.to_owned(), schema(field))).collect();
        let required: Vec<&str> = fields.iter().filter(|field| field.is_required).map(|field| field.name).collect();
        let schema =
            json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false });
        put(
            &mut operation,
            "requestBody",
            json!({
                "required": !required.is_empty(),
                "content": { "application/json": { "schema": schema } },
            }),
        );
    } else {
        parameters.extend(fields.into_iter().map(|field| described(field, "query")));
    }
    put(&mut operation, "parameters", parameters.into());
    // Beyond this machine's own addresses a token is needed for all of them.
    let security = match route.access {
        Access::Read => json!([{}, { "token": [] }]),
        Access::Change => json!([{ "token": [] }]),
    };
    put(&mut operation, "security", security);
    operation
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

fn failure(about: &str) -> Value {
    json!({ "description": about, "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Error" } } } })
}

fn described(parameter: &Parameter, place: &str) -> Value {
    json!({
        "name": parameter.name,
        "in": place,
        "required": place == "path" || parameter.is_required,
        "description": parameter.about,
        "schema": schema_type(parameter.kind),
    })
}

fn schema(parameter: &Parameter) -> Value {
    let mut schema = schema_type(parameter.kind);
    put(&mut schema, "description", parameter.about.into());
    schema
}

fn schema_type(kind: Kind) -> Value {
    match kind {
        Kind::Integer => json!({ "type": "integer", "minimum": 0 }),
        Kind::Text => json!({ "type": "string" }),
        Kind::Flag => json!({ "type": "boolean" }),
    }
}

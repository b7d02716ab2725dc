use serde_json::json;

use super::*;

const TABLE: &[Route<u8>] = &[
    Route::read("/api/groups/{group}", 1).named("groups", "group", "A group.").takes(&[Parameter::required(
        "group",
        Kind::Integer,
        "Its number.",
    )]),
    Route::change("POST", "/api/groups/{group}/servers", 2).named("groups", "addServer", "One more server.").takes(&[
        Parameter::required("group", Kind::Integer, "Its number."),
        Parameter::optional("address", Kind::Text, "Where it listens."),
        Parameter::optional("plan", Kind::Flag, "Only say what would be done."),
    ]),
    Route::read("/api/groups/all", 3).named("groups", "allGroups", "All."),
];

fn asked(method: &str, path: &str, query: &str, body: &serde_json::Value) -> Result<(u8, Input), String> {
    match find(TABLE, method, path) {
        RouteMatch::Route(route, values) => {
            Ok((route.handler, Input::of(route, values, query, body).map_err(|error| error.to_string())?))
        }
        RouteMatch::OtherMethod(methods) => Err(format!("only {}", methods.join(", "))),
        RouteMatch::Nothing => Err("nothing".into()),
    }
}

#[test]
fn paths_lead_to_routes() {
    let handler = |method: &str, path: &str| asked(method, path, "", &json!(null)).map(|(handler, _)| handler);
    for (method, path, expected) in [
        ("GET", "/api/groups/7", Ok(1)),
        ("HEAD", "/api/groups/7", Ok(1)),
        ("GET", "/api/groups/all", Ok(3)),
        ("POST", "/api/groups/7/servers", Ok(2)),
        ("GET", "/api/groups/7/servers", Err("only POST".to_owned())),
        ("GET", "/api/groups/", Err("nothing".into())),
        ("GET", "/api/groups/7/", Err("nothing".into())),
        ("GET", "/api/groups/%7", Err("nothing".into())),
        ("GET", "/api/groups/x", Err("'group' is a number from 0 up, not x".into())),
    ] {
        assert_eq!(handler(method, path), expected, "{method} {path}");
    }
}

#[test]
fn what_comes_in_is_checked() {
    let add = |query: &str, body: serde_json::Value| {
        asked("POST", "/api/groups/7/servers", query, &body).map(|(_, input)| input)
    };
    let input = add("plan=true", json!({ "address": "127.0.0.1:1", "group": 7 })).unwrap();
    assert_eq!((input.integer("group"), input.text("address"), input.flag("plan")), (7, Some("127.0.0.1:1"), true));
    let input = add("address=%3A%3A1%3A6379", json!(null)).unwrap();
    assert_eq!(
        (input.text("address"), input.flag("plan"), input.maybe_integer("other")),
        (Some("::1:6379"), false, None)
    );
    for (query, body, expected) in [
        (
            "",
            json!({ "adress": "x" }),
            "'adress' is no parameter of POST /api/groups/{group}/servers: it takes group, address, plan",
        ),
        ("", json!({ "address": 5 }), "'address' is text, not 5"),
        ("", json!({ "plan": "yes" }), "'plan' is true or false, not \"yes\""),
        ("", json!({ "group": 8 }), "'group' is given twice: 7 and 8"),
        ("", json!([1]), "the body is no JSON object"),
        ("plan=%4", json!(null), "the query cannot be read: % is followed by two hexadecimal digits"),
        ("plan=maybe", json!(null), "'plan' is true or false, not maybe"),
    ] {
        assert_eq!(add(query, body), Err(expected.to_owned()), "{query}");
    }
}

#[test]
fn the_description_has_every_route_and_nothing_else() {
    let described = describe(TABLE, "A title", "What it is.");
    assert_eq!(described["openapi"], "3.1.0");
    let paths = described["paths"].as_object().unwrap();
    let count: usize = paths.values().map(|methods| methods.as_object().unwrap().len()).sum();
    assert_eq!(count, TABLE.len());
    let add = &paths["/api/groups/{group}/servers"]["post"];
    assert_eq!(
        add["parameters"],
        json!([{
            "name": "group", "in": "path", "required": true, "description": "Its number.", "schema": { "type": "integer", "minimum": 0 },
        }])
    );
    let schema = &add["requestBody"]["content"]["application/json"]["schema"];
    assert_eq!(schema["required"], json!([]));
    assert_eq!(schema["properties"]["plan"]["type"], "boolean");
    assert_eq!(add["security"], json!([{ "token": [] }]));
    assert_eq!(paths["/api/groups/all"]["get"]["security"], json!([{}, { "token": [] }]));
}

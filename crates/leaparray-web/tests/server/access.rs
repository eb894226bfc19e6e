//! Which requests are answered.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use http_body_util::BodyExt;
use leaparray_web::{Access, Page, PageService, Token, TokenError};
use tower::ServiceExt;

use crate::registry;

const DATA: [&str; 3] = ["/stream", "/snapshot", "/metrics"];

fn page(access: Access) -> PageService {
    let page = Page::new(registry().0, access).name("of the shop");
    page.metrics("text/plain", || "orders_total 7\n".to_owned()).into_service()
}

fn token() -> Token {
    Token::new("dGhlIHRva2VuIG9m.the-page_~").unwrap()
}

async fn send(page: PageService, path: &str, headers: &[(&str, &str)]) -> Response {
    let mut request = Request::get(path).header("host", "shop.example");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    page.oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

async fn status(page: PageService, path: &str, headers: &[(&str, &str)]) -> StatusCode {
    send(page, path, headers).await.status()
}

async fn text(response: Response) -> String {
    let body = response.into_body().collect().await.unwrap().to_bytes();
    String::from_utf8(body.to_vec()).unwrap()
}

#[tokio::test]
async fn data_needs_the_token() {
    let page = page(Access::token(&token()));
    let bearer = format!("Bearer {}", token().as_str());
    let lower = bearer.replace("Bearer", "bEARER ");
    for path in DATA {
        for headers in [
            &[("authorization", bearer.as_str())][..],
            &[("authorization", &lower)],
            &[("leaparray-token", token().as_str())],
            // A proxy has asked the browser for a password.
            &[("authorization", "Basic QWxhZGRpbg=="), ("leaparray-token", token().as_str())],
        ] {
            assert_eq!(status(page.clone(), path, headers).await, 200, "{path} {headers:?}");
        }
    }
}

#[tokio::test]
async fn request_without_the_token_is_told_what_to_do() {
    let page = page(Access::token(&token()));
    let of_url = format!("/snapshot?token={}", token().as_str());
    let cookie = format!("token={0}; leaparray-token={0}", token().as_str());
    for path in [DATA[0], DATA[1], DATA[2], of_url.as_str()] {
        for headers in [
            &[][..],
            &[("authorization", "Basic QWxhZGRpbg==")],
            &[("authorization", token().as_str())],
            &[("authorization", "Bearer")],
            &[("cookie", &cookie)],
            // Headers that a proxy or its client can choose.
            &[("host", "localhost"), ("x-forwarded-for", "127.0.0.1"), ("x-real-ip", "::1")],
        ] {
            let response = send(page.clone(), path, headers).await;
            assert_eq!(response.status(), 401, "{path} {headers:?}");
            assert_eq!(response.headers()["www-authenticate"], r#"Bearer realm="leaparray""#);
            let text = text(response).await;
            assert!(text.contains("#token=") && text.contains("Authorization: Bearer"), "{text}");
        }
    }
}

#[tokio::test]
async fn request_with_another_token_is_told_what_to_do() {
    let page = page(Access::token(&token()));
    let (text_of, other) = (token().as_str().to_owned(), Token::random());
    let longer = format!("{text_of}x");
    for presented in [&text_of[1..], &text_of[..text_of.len() - 1], &longer, other.as_str(), ""] {
        for path in DATA {
            let bearer = format!("Bearer {presented}");
            for header in [("authorization", bearer.as_str()), ("leaparray-token", presented)] {
                let response = send(page.clone(), path, &[header]).await;
                assert_eq!(response.status(), 401, "{path} {header:?}");
                let challenge = response.headers()["www-authenticate"].to_str().unwrap();
                assert_eq!(challenge, r#"Bearer realm="leaparray", error="invalid_token""#);
                let text = text(response).await;
                assert!(text.contains("Token::new") && !text.contains(&text_of), "{text}");
            }
        }
    }
}

#[tokio::test]
async fn document_needs_no_token_and_has_no_data() {
    let closed = text(send(page(Access::token(&token())), "/", &[]).await).await;
    let open = text(send(page(Access::anyone()), "/", &[]).await).await;
    assert_eq!(closed, open);
    for data in ["of the shop", token().as_str(), "orders_total"] {
        assert!(!closed.contains(data), "{data}");
    }
}

#[test]
fn tokens_differ_and_do_not_show_themselves() {
    let (one, other) = (Token::random(), Token::random());
    assert_ne!(one.as_str(), other.as_str());
    assert!(Token::new(one.as_str()).is_ok());
    let shown = format!("{one:?} {:?} {:?}", Access::token(&one), page(Access::token(&one)));
    assert!(!shown.contains(one.as_str()), "{shown}");
}

#[test]
fn token_needs_no_escape_in_an_address_or_a_header() {
    let (shortest, longest) = ("a".repeat(16), "z".repeat(256));
    for text in [&*shortest, &longest, "ABCXYZabcxyz0189-._~"] {
        assert_eq!(Token::new(text).unwrap().as_str(), text);
    }
    for length in [0, 15, 257] {
        let error = Token::new("a".repeat(length)).unwrap_err();
        assert_eq!(error, TokenError::Length { length });
        assert!(error.to_string().contains(&length.to_string()), "{error}");
    }
    for other in [" ", "\n", "+", "/", "=", "#", "&", "%", "\"", "é", "\0"] {
        let error = Token::new(format!("{shortest}{other}{shortest}")).unwrap_err();
        assert_eq!(error, TokenError::Character { offset: 16 });
        assert!(error.to_string().contains("offset 16"), "{error}");
    }
}

#[tokio::test]
async fn anyone_reads_what_is_open() {
    for path in ["/", "/stream", "/snapshot", "/metrics"] {
        let forwarded = [("x-forwarded-for", "203.0.113.7"), ("via", "1.0 proxy")];
        assert_eq!(status(page(Access::anyone()), path, &forwarded).await, 200, "{path}");
    }
}

#[tokio::test]
async fn function_decides() {
    let access = Access::authorized_by(|parts| parts.headers.contains_key("cookie"));
    let page = page(access);
    for path in ["/", "/stream", "/snapshot", "/metrics"] {
        assert_eq!(status(page.clone(), path, &[("cookie", "session=7")]).await, 200, "{path}");
        let refused = send(page.clone(), path, &[]).await;
        assert_eq!(refused.status(), 403, "{path}");
        assert!(!refused.headers().contains_key("www-authenticate"));
        let text = text(refused).await;
        assert!(text.contains("Access::authorized_by"), "{text}");
    }
}

const LINK: [(&str, &str); 2] = [("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];

#[tokio::test]
async fn page_of_another_site_takes_no_place() {
    let anyone = || page(Access::anyone());
    for site in ["cross-site", "same-site", "unknown"] {
        let script = [("sec-fetch-site", site), ("sec-fetch-mode", "cors")];
        let frame = [
            ("sec-fetch-site", site),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "iframe"),
        ];
        let link = [("sec-fetch-site", site), LINK[0], LINK[1]];
        for (path, of_link) in [("/", 200), ("/stream", 403), ("/snapshot", 403)] {
            assert_eq!(status(anyone(), path, &script).await, 403, "{site} {path}");
            assert_eq!(status(anyone(), path, &frame).await, 403, "{site} {path}");
            assert_eq!(status(anyone(), path, &link).await, of_link, "{site} {path}");
        }
    }
    for site in ["same-origin", "none"] {
        assert_eq!(status(anyone(), "/snapshot", &[("sec-fetch-site", site)]).await, 200);
    }
    let nested: Router = Router::new().nest_service("/leaparray", anyone());
    for path in ["/leaparray", "/leaparray/"] {
        let request = Request::get(path).header("sec-fetch-site", "cross-site");
        let request = request.header(LINK[0].0, LINK[0].1).header(LINK[1].0, LINK[1].1);
        let request = request.body(Body::empty()).unwrap();
        assert_eq!(nested.clone().oneshot(request).await.unwrap().status(), 200, "{path}");
    }
}

/// Over plain HTTP, browsers send no `Sec-Fetch-Site` to other machines. They send an `Origin` with
/// a `GET` of a script of another origin only. Behind a proxy, `Host` may name the service.
#[tokio::test]
async fn script_of_another_origin_takes_no_place() {
    for origin in ["http://other.example", "http://shop.example", "null", "", "file://"] {
        let headers = [("origin", origin)];
        assert_eq!(status(page(Access::anyone()), "/stream", &headers).await, 403, "{origin}");
        let own = [("origin", origin), ("sec-fetch-site", "same-origin")];
        assert_eq!(status(page(Access::anyone()), "/stream", &own).await, 200, "{origin}");
    }
}

/// A script of another origin may send the headers of the token only after a preflight, which is
/// refused.
#[tokio::test]
async fn other_methods_are_refused() {
    for method in ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"] {
        for path in ["/", "/stream", "/snapshot"] {
            let request = Request::builder().method(method).uri(path).body(Body::empty()).unwrap();
            let response = page(Access::anyone()).oneshot(request).await.unwrap();
            assert_eq!(
                (response.status().as_u16(), &response.headers()["allow"]),
                (405, &"GET".parse().unwrap())
            );
            assert!(!response.headers().contains_key("access-control-allow-origin"));
        }
    }
}

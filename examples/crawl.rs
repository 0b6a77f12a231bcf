//! Follows the links of one site, a few pages at a time.
//!
//! ```text
//! cargo run --example crawl -- --depth 2 http://localhost:8000/
//! ```
//!
//! Prints `status depth url` for every page, in the order in which they come.
//! The workers read pages and find their links; the loop in `main` alone decides
//! which of them to follow, and so needs no lock. It ends by itself: a page that
//! is pending keeps the stream of outcomes open, and the last one brings no more.
//!
//! Polite by its budget only: it does not read `robots.txt`. Crawl what is yours.

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;
use fetchpool::{Body, Downloader, Error, HeaderMap, Report, Request, Url};

/// Of a larger page, the rest is not searched for links.
const MAX_PAGE: u64 = 4 << 20;

/// Follow the links of one site, a few pages at a time.
#[derive(Parser)]
struct Args {
    /// Where to begin.
    start: Url,
    /// Links between the first page and the last.
    #[arg(long, value_name = "N", default_value_t = 3)]
    depth: usize,
    /// Fetch no more pages than this.
    #[arg(long, value_name = "PAGES", default_value_t = 100)]
    limit: usize,
    /// Connections to the site at a time.
    #[arg(long, value_name = "N", default_value = "2")]
    per_host: NonZeroUsize,
}

fn main() -> ExitCode {
    match crawl(Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads us has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) => {
            let _ = writeln!(io::stderr(), "error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn crawl(args: Args) -> io::Result<()> {
    let downloader = Downloader::builder()
        .per_host(args.per_host)
        .build()
        .map_err(io::Error::other)?;
    let (jobs, mut outcomes) = downloader.open_with(|body, _| Page::read(body));
    let mut frontier = Frontier::new(&args);
    if let Some(first) = frontier.admit(args.start, 0) {
        jobs.push(first);
    }
    // From here on, pending pages alone keep the stream open.
    drop(jobs);

    while let Some(outcome) = outcomes.next() {
        let page = outcome.unwrap_or_else(Page::failed);
        writeln!(
            io::stdout(),
            "{} {} {}",
            page.status,
            page.depth,
            page.shown
        )?;
        if let Some(url) = &page.url {
            frontier.saw(url);
        }
        for link in page.links {
            if let Some(request) = frontier.admit(link, page.depth + 1) {
                outcomes.push(request);
            }
        }
    }
    Ok(())
}

/// Which pages were met, and which of those to come are wanted.
struct Frontier {
    site: Site,
    seen: HashSet<String>,
    depth: usize,
    /// How many more pages may be fetched.
    left: usize,
}

impl Frontier {
    fn new(args: &Args) -> Self {
        Self {
            site: site(&args.start),
            seen: HashSet::new(),
            depth: args.depth,
            left: args.limit,
        }
    }

    /// A request for `url`, unless it is elsewhere, too deep, known or one too many.
    fn admit(&mut self, mut url: Url, depth: usize) -> Option<Request> {
        // A fragment names a place within a page, not another page.
        url.set_fragment(None);
        if site(&url) != self.site || depth > self.depth || self.left == 0 {
            return None;
        }
        if !self.seen.insert(url.to_string()) {
            return None;
        }
        self.left -= 1;
        Some(Request::from(url).tag(Depth(depth)))
    }

    /// A redirect may have led to `url`: then it need not be fetched again.
    fn saw(&mut self, url: &Url) {
        self.seen.insert(url.to_string());
    }
}

/// Scheme aside: that `http` redirects to `https` does not make two sites.
type Site = (Option<String>, Option<u16>);

fn site(url: &Url) -> Site {
    (url.host_str().map(str::to_owned), url.port())
}

/// How many links away from the first page: the tag of each request.
struct Depth(usize);

fn depth(report: &Report) -> usize {
    report.request().tag_ref().map_or(0, |Depth(depth)| *depth)
}

/// What the loop needs to know of a page, good or bad.
struct Page {
    /// The server's, or the kind of error that kept us from one.
    status: String,
    depth: usize,
    /// What answered.
    url: Option<Url>,
    /// The same for people, without its secrets.
    shown: String,
    links: Vec<Url>,
}

impl Page {
    /// Runs on a worker. What is not HTML is not read.
    fn read(body: Body<'_>) -> io::Result<Self> {
        let mut page = Self {
            status: body.status().as_str().to_owned(),
            depth: depth(body.report()),
            url: Some(body.url().clone()),
            shown: body.shown_url(),
            links: Vec::new(),
        };
        if is_html(body.headers()) {
            let base = body.url().clone();
            let mut html = Vec::new();
            body.take(MAX_PAGE).read_to_end(&mut html)?;
            page.links = hrefs(&String::from_utf8_lossy(&html))
                .filter_map(|href| base.join(&href).ok())
                .collect();
        }
        Ok(page)
    }

    fn failed(error: Error) -> Self {
        let status = error.status().map(|status| status.as_str().to_owned());
        Self {
            status: status.unwrap_or_else(|| error.kind().as_str().to_owned()),
            depth: error.report().map_or(0, depth),
            url: None,
            shown: error.url().unwrap_or_default().to_owned(),
            links: Vec::new(),
        }
    }
}

fn is_html(headers: &HeaderMap) -> bool {
    let content_type = headers.get("content-type").and_then(|v| v.to_str().ok());
    content_type.is_some_and(|value| {
        let media_type = value.split(';').next().unwrap_or_default().trim();
        media_type.eq_ignore_ascii_case("text/html")
            || media_type.eq_ignore_ascii_case("application/xhtml+xml")
    })
}

/// The values of `href` in the `<a>` tags of a page.
///
/// A scanner, not a parser of HTML. It also finds links in comments, scripts and
/// `<textarea>`; it does not know `<base>`, `<area>` or links that a script makes;
/// it expects UTF-8; a `<` within an attribute ends the tag; and of the entities
/// it knows `&amp;` alone, which is the one that URLs are full of.
fn hrefs(html: &str) -> impl Iterator<Item = String> {
    html.split('<').filter_map(|tag| {
        let attributes = tag.strip_prefix(['a', 'A'])?;
        if !attributes.starts_with(|c: char| c.is_ascii_whitespace()) {
            return None;
        }
        Some(href(attributes)?.trim().replace("&amp;", "&"))
    })
}

/// The value of `href` among the attributes of a tag.
fn href(mut rest: &str) -> Option<&str> {
    let is_blank = |c: char| c.is_ascii_whitespace();
    loop {
        rest = rest.trim_start_matches(|c| is_blank(c) || c == '/');
        let end = rest.find(|c| is_blank(c) || matches!(c, '=' | '>' | '/'))?;
        let name;
        (name, rest) = rest.split_at(end);
        rest = rest.trim_start_matches(is_blank);
        if rest.starts_with('>') {
            return None;
        }
        let mut value = "";
        if let Some(after) = rest.strip_prefix('=') {
            (value, rest) = attribute_value(after.trim_start_matches(is_blank))?;
        }
        if name.eq_ignore_ascii_case("href") {
            return Some(value);
        }
    }
}

/// A value, with or without quotes, and what comes after it.
fn attribute_value(text: &str) -> Option<(&str, &str)> {
    for quote in ['"', '\''] {
        if let Some(quoted) = text.strip_prefix(quote) {
            return quoted.split_once(quote);
        }
    }
    let end = text.find(|c: char| c.is_ascii_whitespace() || c == '>')?;
    Some(text.split_at(end))
}

// Package webfetch gets a page from the web for a model to read: one address in, Markdown or text out (L-8).
//
// It is the one place from which a model's words decide what this machine connects to, so it promises:
// only GET, only http and https, no credentials and no cookies; every address a name resolves to is
// judged before anything is sent, and the connection goes to the very address that was judged, so that
// a name which changes its mind in between gains nothing; a redirect is judged like a fresh address and
// is followed only on the same site; time, bytes, headers and the text that comes out are bounded,
// whatever the server does. What a page says is data from a stranger: it is cleaned of what people
// cannot see, and SummaryPrompt fences it off.
//
// Everything here is a pure effect in the sense of a step: nothing is changed anywhere, and an
// interrupted fetch is found out by fetching again. The cache is memory only and is lost in a crash.
package webfetch

package server

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

var update = flag.Bool("update", false, "rewrite generated pages")

const apiHead = "# API\n\n" + `HTTP and JSON over the unix socket ` + "`run/sock`" + ` in the state folder. The socket has mode 0600 in a folder of
mode 0700, and the daemon checks that its peer is the same user. The OpenAPI document is at
` + "`/openapi.json`" + `:

` + "```sh" + `
curl --unix-socket ~/.local/state/taskdaemon/run/sock http://x/openapi.json
curl --unix-socket ~/.local/state/taskdaemon/run/sock -N 'http://x/v1/events?follow=true&live=true'
` + "```" + `

## Over TCP

With ` + "`api.listen: 127.0.0.1:7790`" + ` in the config the same API answers at that address as well. It is off by default. Every request has to show the
token, which the daemon writes to ` + "`api.token`" + ` in the state folder when it first needs one (mode 0600, kept over restarts): without it the answer is 401,
of kind ` + "`auth`" + `, and nothing but the head of the request is read. ` + "`taskdaemon daemon status`" + ` shows the address; with port 0 a free one is taken.

` + "```sh" + `
curl -H "Authorization: Bearer $(cat ~/.local/state/taskdaemon/api.token)" http://127.0.0.1:7790/v1/status
taskdaemon --addr 127.0.0.1:7790 status
` + "```" + `

The command line uses it with ` + "`--addr HOST:PORT`" + ` or ` + "`TASKDAEMON_ADDR`" + `, and takes the token from ` + "`TASKDAEMON_TOKEN`" + `, from the file that ` + "`TASKDAEMON_TOKEN_FILE`" + `
names, or from this machine's state folder. Folders in requests are those of the daemon's machine, and a daemon that is not there is not started. Commands that read the state
folder itself (` + "`daemon start`, `stop` and `logs`, `doctor --rebuild`" + ` and the like) refuse.

- Whoever has the token may do all that you may: answer questions, add tasks, stop the daemon. The journal names them ` + "`token from HOST`" + `, and so do ` + "`task show` and `audit`" + `. For another token delete
  the file and restart the daemon; a file that others may read is refused.
- Nothing is encrypted. An address that other machines reach is refused unless ` + "`api.remote: true`" + ` is set: use it within a tunnel, or behind a proxy with TLS.
- Commands of agents must not have the token: the state folder is out of their sight, and the port is not opened where the sandbox is off, or cannot do all
  that ` + "`taskdaemon sandbox check`" + ` looks for. Hooks and MCP servers are programs that you chose: they run as you, and could read it.
- While no daemon runs, another user of the machine could take the port and be shown the token by a client. Where you do not trust them, use the socket.
- If another program has the port, the daemon does not start, and says so.

## Refs and answers

A ` + "`{ref}`" + ` is an id, a handle, or an unambiguous fragment of either; for commands also of an open request.
Every answer says who gave it: ` + "`Taskdaemon-Provider`, `Taskdaemon-Version`, `Taskdaemon-Pid`" + `. Unknown fields in
a request are refused.

## Changes happen once

What changes something takes a ` + "`key`" + `. The same key again changes nothing and gives the first answer, so a
caller that lost the answer asks again. What was acknowledged is on disk.

## Events

` + "`GET /v1/events`" + ` is a stream of server-sent events:

- ` + "`event: event`" + ` is a record of the journal; its ` + "`id`" + ` is its cursor. Records come in order and without gaps.
- ` + "`event: live`" + ` (with ` + "`live=true`" + `) is a piece of an answer or of a command's output on its way. It has no id and
  is not repeated: the record that follows has it whole. A piece of kind ` + "`gap`" + ` says that some were left out.
- ` + "`event: error`" + ` ends the stream with a failure, ` + "`event: end`" + ` without one. A stream that stops without either was
  cut off.
- Lines that begin with a colon are signs of life, every 15 seconds.

A reader that was away sends the last id it saw, as ` + "`Last-Event-ID`" + ` or ` + "`after=`" + `, and gets what it missed. One that
does not read for 10 seconds is dropped and comes back the same way; it never slows a task.

## Failures

The body has ` + "`kind`, `message`" + ` and, where something can be done, ` + "`hint`" + `: what to type next. Tell failures apart by
kind, not by text.

| kind | status |
|---|--:|
`

// page is docs/api.md.
func page(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(apiHead)
	for _, kind := range slices.Sorted(maps.Keys(statuses)) {
		fmt.Fprintf(&b, "| `%s` | %d |\n", kind, statuses[kind])
	}
	b.WriteString("\n## Routes\n\n| route | what it does | parameters |\n|---|---|---|\n")
	rec := httptest.NewRecorder()
	(&server{}).routes().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	var doc struct {
		Paths map[string]map[string]struct {
			Summary     string
			Parameters  []struct{ Name, In, Description string }
			RequestBody struct {
				Content map[string]struct {
					Schema struct {
						Ref string `json:"$ref"`
					}
				}
			}
		}
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range slices.Sorted(maps.Keys(doc.Paths)) {
		for _, method := range slices.Sorted(maps.Keys(doc.Paths[path])) {
			op := doc.Paths[path][method]
			var params []string
			for _, p := range op.Parameters {
				if p.In != "path" {
					params = append(params, "`"+p.Name+"`")
				}
			}
			if ref := op.RequestBody.Content["application/json"].Schema.Ref; ref != "" {
				params = append(params, "body `"+ref[strings.LastIndexByte(ref, '/')+1:]+"`")
			}
			fmt.Fprintf(&b, "| `%s %s` | %s | %s |\n", strings.ToUpper(method), path, op.Summary, strings.Join(params, ", "))
		}
	}
	return b.String()
}

func TestPageIsUpToDate(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "api.md")
	want := page(t)
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("docs/api.md is out of date (%v): go test ./internal/server -update", err)
	}
}

func TestEveryKindHasAStatus(t *testing.T) {
	for _, kind := range []td.Kind{
		td.NotFound, td.Ambiguous, td.Invalid, td.Conflict, td.Fenced, td.Unknown, td.Locked, td.Storage,
		td.Corrupt, td.Newer, td.Unavailable, td.Refused, td.Timeout, td.Interrupted, td.Auth, td.Internal,
	} {
		if s := statuses[kind]; s < 300 || s > 599 {
			t.Errorf("%s has status %d", kind, s)
		}
		if got := fail(td.Errorf(kind, "x").WithHint("y")); got.Kind != kind || got.Hint != "y" || got.status != statuses[kind] {
			t.Errorf("%s becomes %+v", kind, got)
		}
	}
}

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestStatesDocIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	if err := write(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/states.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("docs/states.md is not what internal/td says: run go generate ./internal/td")
	}
	for _, r := range td.Table {
		if !strings.Contains(want.String(), "`"+string(r.Verb)+"`") {
			t.Errorf("no row for %s", r.Verb)
		}
	}
}

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"taskdaemon/internal/hook"
)

func TestHooksDocIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	if err := write(&want); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("docs/hooks.md is not what internal/hook says: run go generate ./internal/hook")
	}
	for _, tr := range hook.Traits {
		if !strings.Contains(want.String(), "\n### "+string(tr.Point)+"\n") {
			t.Errorf("no section for %s", tr.Point)
		}
		for _, f := range tr.Fields() {
			if f.Doc == "" {
				t.Errorf("%s: %s has no words", tr.Point, f.Name)
			}
		}
	}
}

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestRecordsDocIsUpToDate(t *testing.T) {
	var want bytes.Buffer
	if err := write(&want, ".."); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../../docs/records.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want.String() {
		t.Error("docs/records.md is not what internal/td says: run go generate ./internal/td")
	}
	for b := range td.Bodies() {
		if !strings.Contains(want.String(), "\n## "+string(b.Type())+"\n") {
			t.Errorf("%s is not in it", b.Type())
		}
	}
	if !strings.Contains(want.String(), "| `level` | `int` | 0: there is room again |") {
		t.Error("the fields of disk_filled are not in it")
	}
}

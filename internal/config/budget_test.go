package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"taskdaemon/internal/td"
)

func TestBudgets(t *testing.T) {
	for _, c := range []struct {
		text string
		want td.Money
		err  string
	}{
		{text: "2.50", want: 2_500_000},
		{text: "5", want: 5_000_000},
		{text: "$0.05", want: 50_000},
		{text: "0", want: 0},
		{text: "-1", err: "between 0 and"},
		{text: "1e300", err: "between 0 and"},
		{text: ".nan", err: "want dollars"},
		{text: "NaN", err: "no amount of dollars"},
		{text: "Inf", err: "no amount of dollars"},
		{text: "much", err: "no amount of dollars"},
		{text: "[1]", err: "want dollars"},
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte("budget: {task: 1, day: "+c.text+"}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := Load(LoadOptions{File: file})
		switch {
		case c.err == "" && (err != nil || got.Budget.Day != c.want || got.Budget.Task != 1_000_000):
			t.Errorf("%s: %+v, %v", c.text, got.Budget, err)
		case c.err != "" && (!td.IsKind(err, td.Invalid) || !strings.Contains(err.Error(), c.err) || !strings.Contains(err.Error(), "config.yaml:1:")):
			t.Errorf("%s: %v, want %q", c.text, err, c.err)
		}
	}
}

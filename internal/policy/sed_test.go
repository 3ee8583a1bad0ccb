package policy

import (
	"reflect"
	"testing"
)

// What is called the script of a sed is what sed runs, however the flag is spelled; the rest are files.
func TestSedWords(t *testing.T) {
	for _, tc := range []struct {
		args           []string
		scripts, files []string
	}{
		{[]string{"p", "f"}, []string{"p"}, []string{"f"}},
		{[]string{"f", "--expr", "1e id"}, []string{"1e id"}, []string{"f"}},
		{[]string{"--expr=1e id", "f"}, []string{"1e id"}, []string{"f"}},
		{[]string{"-nEe", "1e id", "f"}, []string{"1e id"}, []string{"f"}},
		{[]string{"-e1e id", "-e", "p", "f"}, []string{"1e id", "p"}, []string{"f"}},
		{[]string{"-l", "5", "1e id", "f"}, []string{"1e id"}, []string{"f"}},
		{[]string{"--line=5", "-i.bak", "1e id", "f"}, []string{"1e id"}, []string{"f"}},
		{[]string{"-ie", "p", "f"}, []string{"p"}, []string{"f"}},
		{[]string{"-f", "script", "f"}, nil, []string{"f"}},
		{[]string{"--file=script", "-"}, nil, []string{"-"}},
		{[]string{"-n", "--", "p", "-e"}, []string{"p"}, []string{"-e"}},
		{[]string{"-e"}, []string{""}, nil},
	} {
		if scripts, files := sedWords(tc.args); !reflect.DeepEqual(scripts, tc.scripts) || !reflect.DeepEqual(files, tc.files) {
			t.Errorf("%q: scripts %q, files %q", tc.args, scripts, files)
		}
	}
}

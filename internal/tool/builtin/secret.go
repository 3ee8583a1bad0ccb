package builtin

import (
	"bytes"
	"strings"

	"taskdaemon/internal/td"
	"taskdaemon/internal/tool"
)

// unmarked refuses a text for a file with secrets that has the mark the model was shown in their place: writing it
// would destroy them. In a file without secrets the mark is a word like any other.
func unmarked(env *tool.Env, rel string, before []byte, text string) error {
	mark := env.Secrets.Mark()
	if mark == "" || !strings.Contains(text, mark) || bytes.Equal(env.Secrets.Bytes(before), before) {
		return nil
	}
	return td.Errorf(td.Refused, "change %s: the text holds %s, which stands for a secret of the file that you are not shown, and would replace it. "+
		"Edit the text around it, without the mark", rel, mark)
}

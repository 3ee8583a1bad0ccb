package webfetch

import (
	"fmt"
	"strings"

	"taskdaemon/internal/fence"
)

// SummaryPrompt asks the small model to answer a question about a page, or to sum the page up if there
// is none. The page is a stranger's text and may try to give orders, so it is fenced off. The same page
// and question always make the same prompt. Effect: none.
func SummaryPrompt(page Page, question string) string {
	task := "Answer the question from the page alone. Say so if the page does not answer it."
	ask := "Question: " + strings.TrimSpace(clean(question))
	if strings.TrimSpace(clean(question)) == "" {
		task = "Sum up what the page says, for somebody who will not read it."
		ask = "Sum the page up."
	}
	about := fmt.Sprintf("Address: %s\nTitle: %s\n\n%s", page.URL, page.Title, page.Text)
	return fmt.Sprintf(`You read a web page for a colleague who works on software. %[1]s
Keep names, numbers, versions, commands and code exactly as they are on the page, and give the addresses of links that matter. Be brief: no preamble.

%[2]s

%[3]s
`, task, fence.Text("The page", about), ask)
}

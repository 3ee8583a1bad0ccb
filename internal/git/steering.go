package git

import (
	"context"
	"slices"

	"taskdaemon/internal/gitfile"
)

// Steering is what in the checkout around dir a person's git runs or obeys, by settings that it reads there: the folders of hooks that core.hooksPath names,
// and files of settings that others include. What is outside of the checkout, or is what git keeps of it, is not in it.
type Steering struct {
	Hooks    []string
	Settings []string
}

// SteeringOf finds it without running anything but to read files that have changed. Where there is no repository there is none.
func SteeringOf(ctx context.Context, dir string) (Steering, error) {
	var at site
	at.discover(real(dir))
	if at.refuse != nil || at.common == "" || at.top == "" {
		return Steering{}, nil
	}
	said, err := configs.of(ctx, at)
	if err != nil {
		return Steering{}, err
	}
	var found Steering
	add := func(list *[]string, path string) {
		if path = real(gitfile.Beside(at.top, inHome(path))); path != at.top && covers(path, at.top) && !covers(path, at.common) && !slices.Contains(*list, path) {
			*list = append(*list, path)
		}
	}
	for _, one := range slices.Concat(said.person, said.local, said.included) {
		if one.key == "core.hookspath" && one.value != "" {
			add(&found.Hooks, one.value)
		}
	}
	for _, file := range said.files {
		add(&found.Settings, file)
	}
	return found, nil
}

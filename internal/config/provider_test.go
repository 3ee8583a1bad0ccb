package config

import "testing"

// A provider of the file that does the work is the default one, unless a key says otherwise.
func TestListedProviderIsTheDefault(t *testing.T) {
	c := Default()
	c.Providers = []Provider{{Name: "local", Kind: OpenAI, BaseURL: "http://localhost:1/v1"}}
	c.Models.Worker = "local/qwen"
	none := func(string) string { return "" }
	if got := c.ProviderIn(none); got != "local" {
		t.Errorf("without a key it is %s", got)
	}
	if got := c.ModelsIn(none); got != (Models{Small: "local/qwen", Worker: "local/qwen", Expert: "local/qwen"}) {
		t.Errorf("its models are %+v", got)
	}
	if all, err := c.ProvidersIn(none); err != nil || len(all) != 1 {
		t.Errorf("the providers are %+v, %v", all, err)
	}
	c.Models.Small = "local/small"
	if got := c.ModelsIn(none).Small; got != "local/small" {
		t.Errorf("the small model is %s", got)
	}
	key := func(env string) string { return map[string]string{"ANTHROPIC_API_KEY": "k"}[env] }
	if got, m := c.ProviderIn(key), c.ModelsIn(key); got != Anthropic || m != c.Models {
		t.Errorf("with a key it is %s with %+v", got, m)
	}
	for _, worker := range []string{"qwen", "other/qwen"} {
		c.Models.Worker = worker
		if got := c.ProviderIn(none); got != RehearsalProvider || c.ModelsIn(none) != c.Models {
			t.Errorf("for %s it is %s", worker, got)
		}
	}
}

package policy

import "testing"

// A host that is a pattern would stand for others: it is not offered.
func TestHostOffersAreOneHost(t *testing.T) {
	p, err := New(place(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"example.com": 1, "*": 0, "*.com": 0, "a?c.test": 0, "": 0} {
		d := p.Decide(Action{Tool: "WebFetch", Hosts: []string{host}, Looks: true})
		n := 0
		for _, o := range d.Offers {
			if o.Rule == "WebFetch("+host+")" {
				n++
			}
		}
		if n != want {
			t.Errorf("%q: %d offers of it, want %d: %v", host, n, want, d.Offers)
		}
	}
}

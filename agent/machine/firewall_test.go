package machine

import (
	"slices"
	"testing"
)

const (
	nftTable = `{"table":{"family":"ip","name":"nat","handle":1}}`
	nftOwn   = `{"chain":{"family":"ip","table":"nat","name":"DOCKER","handle":2}}`
	nftPost  = `{"chain":{"family":"ip","table":"nat","name":"POSTROUTING","handle":3,"type":"nat","hook":"postrouting","prio":100,"policy":"accept"}}`
	nftFirst = `{"rule":{"family":"ip","table":"nat","chain":"POSTROUTING","handle":4,"expr":[{"counter":{"packets":7,"bytes":9}},{"drop":null}]}}`
	nftThen  = `{"rule":{"family":"ip","table":"nat","chain":"POSTROUTING","handle":5,"expr":[{"masquerade":null}]}}`
	nftOther = `{"rule":{"family":"ip","table":"nat","chain":"DOCKER","handle":6,"expr":[{"return":null}]}}`
)

func TestOnlyTheRulesOfOneChainHaveAnOrder(t *testing.T) {
	listing := func(objects ...string) []string {
		t.Helper()
		raw := `{"nftables":[{"metainfo":{"version":"1.0.6"}}`
		for _, o := range objects {
			raw += "," + o
		}
		lines, err := NormalizeNFT([]byte(raw + "]}"))
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	was := listing(nftTable, nftOwn, nftPost, nftOther, nftFirst, nftThen)
	for name, tc := range map[string]struct {
		now  []string
		same bool
	}{
		"as it was":                   {listing(nftTable, nftOwn, nftPost, nftOther, nftFirst, nftThen), true},
		"a chain deleted and remade":  {listing(nftTable, nftPost, nftFirst, nftThen, nftOwn, nftOther), true},
		"two rules changed places":    {listing(nftTable, nftOwn, nftPost, nftOther, nftThen, nftFirst), false},
		"a rule more":                 {listing(nftTable, nftOwn, nftPost, nftOther, nftFirst, nftThen, nftThen), false},
		"a rule less":                 {listing(nftTable, nftOwn, nftPost, nftFirst, nftThen), false},
		"an empty chain less":         {listing(nftTable, nftPost, nftOther, nftFirst, nftThen), false},
		"a rule in the other's chain": {listing(nftTable, nftOwn, nftPost, nftFirst, nftThen, `{"rule":{"family":"ip","table":"nat","chain":"POSTROUTING","expr":[{"return":null}]}}`), false},
	} {
		if slices.Equal(was, tc.now) != tc.same {
			t.Errorf("%s: the same %v, want %v:\n%q\n%q", name, !tc.same, tc.same, was, tc.now)
		}
	}
}

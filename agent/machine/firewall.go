package machine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog/lazyregexp"
)

// NormalizeNFT turns nft's JSON listing into lines that change only when the rules change: handles,
// positions, counters and the elements of sets filled by the packet path are left out. Order counts
// only among the rules of one chain. A chain that was deleted and created again is listed later but
// yields the same lines: a container engine recreates its chains when it starts.
func NormalizeNFT(raw []byte) ([]string, error) {
	var doc struct {
		NFTables []map[string]any `json:"nftables"`
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("cannot parse firewall rules: %w", err)
	}
	if doc.NFTables == nil {
		return nil, fmt.Errorf("cannot parse firewall rules: no list")
	}
	doc.NFTables = slices.DeleteFunc(doc.NFTables, func(object map[string]any) bool {
		_, meta := object["metainfo"]
		return meta
	})
	slices.SortStableFunc(doc.NFTables, func(a, b map[string]any) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	var lines []string
	for _, object := range doc.NFTables {
		strip(object)
		line, err := json.Marshal(object) // maps in the order of their keys
		if err != nil {
			return nil, err
		}
		lines = append(lines, string(line))
	}
	return lines, nil
}

// sortKey returns the sort key of an object in a listing: its own name or, for a rule, its chain's.
func sortKey(object map[string]any) string {
	for kind, v := range object { // the map has one key
		about, _ := v.(map[string]any)
		name := about["name"]
		if kind == "rule" {
			name = about["chain"]
		}
		return fmt.Sprintf("%q %q %q %q", kind, about["family"], about["table"], name)
	}
	return ""
}

func strip(v any) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			strip(e)
		}
	case map[string]any:
		for _, name := range []string{"handle", "index", "packets", "bytes", "used", "expires"} {
			delete(v, name)
		}
		if flags, ok := v["flags"].([]any); ok {
			for _, f := range flags {
				if f == "dynamic" || f == "timeout" {
					delete(v, "elem")
				}
			}
		}
		for _, e := range v {
			strip(e)
		}
	}
}

var iptablesCounters = lazyregexp.New(`\[\d+:\d+\]`)

// NormalizeIPTables turns the output of iptables-save into lines that change only when the rules
// change. A built-in chain of the kernel with the policy ACCEPT is not a rule and is left out.
func NormalizeIPTables(text string) []string {
	var lines []string
	table := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(iptablesCounters.ReplaceAllString(line, ""))
		switch {
		case line == "", strings.HasPrefix(line, "#"), line == "COMMIT", strings.HasPrefix(line, ":") && strings.HasSuffix(line, " ACCEPT"):
		case strings.HasPrefix(line, "*"):
			table = line[1:]
		default:
			lines = append(lines, table+" "+line)
		}
	}
	return lines
}

package machine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// NormalizeNFT turns nft's JSON listing into lines that stay as they are while
// the rules do: handles, positions, counters and the elements of sets that the
// packet path fills are left out. Only rules of one chain have an order: a
// chain that was deleted and made again, as a container engine does with its
// own when it starts, is listed after others and is the same.
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
	slices.SortStableFunc(doc.NFTables, func(a, b map[string]any) int { return cmp.Compare(place(a), place(b)) })
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

// place names what an object of a listing is or, of a rule, where it stands.
func place(object map[string]any) string {
	for kind, v := range object { // it has one key
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

var iptablesCounters = regexp.MustCompile(`\[\d+:\d+\]`)

// NormalizeIPTables does the same with what iptables-save prints. A chain of
// the kernel's own that lets everything pass is no rule.
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

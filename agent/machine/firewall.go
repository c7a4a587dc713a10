package machine

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// NormalizeNFT turns nft's JSON listing into lines that stay as they are while
// the rules do: handles, positions, counters and the elements of sets that the
// packet path fills are left out.
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
	var lines []string
	for _, object := range doc.NFTables {
		if _, meta := object["metainfo"]; meta {
			continue
		}
		strip(object)
		line, err := json.Marshal(object) // maps in the order of their keys
		if err != nil {
			return nil, err
		}
		lines = append(lines, string(line))
	}
	return lines, nil
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

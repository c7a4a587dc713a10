package qemu

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// aptSources returns this machine's own apt sources for Debian's suite, as
// one-line entries. None is fine: mmdebstrap then asks Debian's own mirror.
func aptSources() ([]string, error) {
	var lines []string
	files := []string{"/etc/apt/sources.list"}
	for _, pattern := range []string{"/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources"} {
		more, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		files = append(files, more...)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read apt sources: %w", err)
		}
		if strings.HasSuffix(file, ".sources") {
			lines = append(lines, parseDeb822(string(data))...)
		} else {
			lines = append(lines, parseOneLine(string(data))...)
		}
	}
	return lines, nil
}

// ofSuite tells Debian's suite and its pockets from the suites of other archives.
func ofSuite(s string) bool {
	return slices.Contains([]string{suite, suite + "-updates", suite + "-security"}, s)
}

func parseOneLine(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		rest, ok := strings.CutPrefix(line, "deb ")
		if !ok {
			continue
		}
		if rest = strings.TrimSpace(rest); strings.HasPrefix(rest, "[") {
			_, rest, _ = strings.Cut(rest, "]")
		}
		if f := strings.Fields(rest); len(f) >= 3 && ofSuite(f[1]) && slices.Contains(f[2:], "main") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func parseDeb822(text string) []string {
	var lines []string
	for stanza := range strings.SplitSeq(strings.ReplaceAll(text, "\r", ""), "\n\n") {
		f := map[string]string{}
		for s := bufio.NewScanner(strings.NewReader(stanza)); s.Scan(); {
			if key, value, ok := strings.Cut(s.Text(), ":"); ok && !strings.HasPrefix(key, "#") {
				f[strings.ToLower(key)] = strings.TrimSpace(value)
			}
		}
		if strings.EqualFold(f["enabled"], "no") || !slices.Contains(strings.Fields(f["types"]), "deb") ||
			!slices.Contains(strings.Fields(f["components"]), "main") {
			continue
		}
		option := ""
		if key := f["signed-by"]; strings.HasPrefix(key, "/") {
			option = "[signed-by=" + key + "] "
		}
		for _, uri := range strings.Fields(f["uris"]) {
			for _, s := range strings.Fields(f["suites"]) {
				if ofSuite(s) {
					lines = append(lines, fmt.Sprintf("deb %s%s %s main", option, uri, s))
				}
			}
		}
	}
	return lines
}

// aptOptions returns this machine's apt settings for its mirror: proxies, time-outs, and whether
// apt checks the mirror's dates.
func aptOptions(ctx context.Context) ([]string, error) {
	out, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot read apt's settings: %w", err)
	}
	var options []string
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "Acquire::") && !strings.HasSuffix(line, `"";`) {
			options = append(options, line)
		}
	}
	return options, nil
}

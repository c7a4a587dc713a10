package validate

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/hostler/hostler/taskcatalog"
)

// crowdedDirs are directories of many small files that change together: in the baseline one line
// stands for a whole directory.
var crowdedDirs = []string{
	"/etc/alternatives", "/etc/ssl/certs", "/etc/ca-certificates", "/etc/rc0.d", "/etc/rc1.d", "/etc/rc2.d",
	"/etc/rc3.d", "/etc/rc4.d", "/etc/rc5.d", "/etc/rc6.d", "/etc/rcS.d",
}

// Bounds of the baseline lines for the files of one look.
const (
	maxInDir   = 40   // of one directory
	maxRecords = 1200 // of one look
)

// rollUp merges each crowded directory into one line and, while there are still too many lines,
// each whole tree.
func rollUp(records []taskcatalog.BaselineFile) []taskcatalog.BaselineFile {
	count := map[string]int{}
	for _, r := range records {
		count[path.Dir(r.Path)]++
	}
	var rolls []string
	for dir, n := range count {
		if slices.Contains(crowdedDirs, dir) || n > maxInDir && dir != "/etc" {
			rolls = append(rolls, dir+"/*")
		}
	}
	out := mergeBelow(records, rolls)
	for depth := 6; len(out) > maxRecords && depth > 1; depth-- {
		trees := map[string]bool{}
		for _, r := range records {
			if parts := strings.SplitN(r.Path, "/", depth+2); len(parts) == depth+2 {
				trees[strings.Join(parts[:depth+1], "/")+"/**"] = true
			}
		}
		rolls = rolls[:0]
		for t := range trees {
			rolls = append(rolls, t)
		}
		out = mergeBelow(records, rolls)
	}
	return out
}

// mergeBelow merges the records below each of rolls into one line.
func mergeBelow(records []taskcatalog.BaselineFile, rolls []string) []taskcatalog.BaselineFile {
	roll := map[string]bool{}
	for _, r := range rolls {
		roll[r] = true
	}
	groups := map[string][]taskcatalog.BaselineFile{}
	var out []taskcatalog.BaselineFile
	for _, r := range records {
		into := path.Dir(r.Path) + "/*"
		if !roll[into] {
			into = ""
		}
		for dir := path.Dir(r.Path); dir != "/" && dir != "."; dir = path.Dir(dir) {
			if roll[dir+"/**"] {
				into = dir + "/**"
			}
		}
		if into == "" {
			out = append(out, r)
			continue
		}
		groups[into] = append(groups[into], r)
	}
	for name, group := range groups {
		sortFiles(group)
		h := sha256.New()
		for _, f := range group {
			fmt.Fprintf(h, "%q %s %o %d\n", f.Path, f.Digest, f.Mode, f.UID)
		}
		out = append(out, taskcatalog.BaselineFile{Path: name, Digest: hex.EncodeToString(h.Sum(nil)[:16])})
	}
	sortFiles(out)
	return out
}

package main

import (
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
)

// FuzzCSV reads a file that somebody made: each row has a cell for each column, and
// nothing else.
func FuzzCSV(f *testing.F) {
	for _, seed := range []string{
		"hostname,interface,ipv4_cidr\nc01,enp28s0np0,172.30.9.61/31\n", "\xef\xbb\xbfHostname , INTERFACE,ipv4_cidr\n# later\n c01, x , \n",
		"hostname,hostname\n", "hostname,interface,ipv4_cidr\nc01\n", "hostname,interface,ipv4_cidr\n\"c01\n", "", "\x00", "hostname;interface;ipv4_cidr\n",
	} {
		f.Add([]byte(seed))
	}
	needed := []string{"hostname", "interface", "ipv4_cidr"}
	f.Fuzz(func(t *testing.T, raw []byte) {
		rows, err := csvRows("roce.csv", "roce_invalid", raw, needed, []string{"note"})
		if err != nil {
			if e := broker.AsError(err); e.Code != "roce_invalid" || e.Kind != broker.Invalid || rows != nil {
				t.Errorf("%v, with %d rows", err, len(rows))
			}
			return
		}
		for _, row := range rows {
			for _, column := range needed {
				if cell, has := row[column]; !has || cell != strings.TrimSpace(cell) {
					t.Errorf("column %s of %q", column, row)
				}
			}
			if len(row) > len(needed)+1 {
				t.Errorf("%q", row)
			}
		}
	})
}

package main

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/hostler/hostler/broker"
)

// A spreadsheet puts a mark of its encoding first, quotes cells, ends lines as Windows
// does, and writes empty rows and columns as commas.
func TestAFileOfASpreadsheetIsReadAsItsOwnerSeesIt(t *testing.T) {
	const file = "\xef\xbb\xbfHostname,IPMI_IP,PXE_MAC\r\n\"C07U43\",10.9.0.1,30:3E:A7:27:3C:F0\r\n,,\r\nc07u44, 10.9.0.2 ,\r\n"
	want := []map[string]string{{"#line": "2", "hostname": "C07U43", "ipmi_ip": "10.9.0.1", "pxe_mac": "30:3E:A7:27:3C:F0"}, {"#line": "4", "hostname": "c07u44", "ipmi_ip": "10.9.0.2"}}
	read := func(raw string) ([]map[string]string, error) {
		return csvRows("hosts.csv", "onboarding_invalid", []byte(raw), []string{"hostname", "ipmi_ip"}, []string{"pxe_mac"})
	}
	rows, err := read(file)
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("%v, %v", rows, err)
	}
	for raw, want := range map[string]string{
		"hostname,ipmi_ip,\nc1,10.9.0.1,\n":          "",
		"hostname,ipmi_ip,,\nc1,10.9.0.1,,\n,,,\n":   "",
		"hostname,ipmi_ip\nc1,10.9.0.1\n \n\n , \n":  "",
		"hostname,ipmi_ip\nc1,10.9.0.1\n,10.9.0.2\n": "cannot use hosts.csv: line 3 has no hostname",
		"hostname,ipmi_ip\n\n# later\nc2, \n":        "cannot use hosts.csv: line 4 has no ipmi_ip",
		"hostname,ipmi_ip,\nc1,10.9.0.1,x\n":         `cannot use hosts.csv: line 2 has "x" in a column without a name`,
		"hostname,ipmi_ip\nc1\n":                     "cannot use hosts.csv: line 2 has 1 cells, and the first line has 2",
	} {
		rows, err := read(raw)
		if said := fmt.Sprint(err); want == "" && (err != nil || len(rows) != 1) || want != "" && said != want {
			t.Errorf("%q: %v, %s, want %q", raw, rows, said, want)
		}
	}
}

// FuzzCSV reads a file made by a person: each row has a cell for each column, and nothing else.
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
				if cell := row[column]; cell == "" || cell != strings.TrimSpace(cell) {
					t.Errorf("column %s of %q", column, row)
				}
			}
			if len(row) > len(needed)+2 || row[lineColumn] == "" { // note, and the line
				t.Errorf("%q", row)
			}
		}
	})
}

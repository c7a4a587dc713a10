package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"
)

func main() {
	keys := flag.Int("keys", 600, "how many are typed in each terminal while the link is bad")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Minute)
	defer cancel()
	f, err := measure(ctx, *keys)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// Keys are typed at a person's pace, in turns, so that other load on the machine affects both
// clients.
const (
	pace      = 150 * time.Millisecond
	turn      = 50 // keys
	cleanKeys = 100
	bulkRuns  = 3
	bulkSize  = 16 << 20
)

func measure(ctx context.Context, keys int) (f *figures, err error) {
	s, err := newSite(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nthe broker said:\n%s", err, s.BrokerLog())
		}
		_ = s.Close()
	}()
	f = &figures{Keys: keys}
	if f.Machine, err = run(ctx, "systemd-detect-virt"); err != nil {
		return nil, err
	}
	if f.SSH, err = run(ctx, "ssh", "-V"); err != nil {
		return nil, err
	}
	if f.MBps, err = s.bulk(ctx); err != nil {
		return nil, err
	}
	if f.Clean, err = s.typing(ctx, cleanKeys); err != nil {
		return nil, err
	}
	if err := netem(ctx, true); err != nil {
		return nil, err
	}
	if f.Bad, err = s.typing(ctx, keys); err != nil {
		return nil, err
	}
	if f.Loss, err = lost(ctx); err != nil {
		return nil, err
	}
	return f, netem(ctx, false)
}

// typing measures the time until keys are shown by a program that reads them.
func (s *site) typing(ctx context.Context, keys int) (p pair[echo], err error) {
	argv := s.clients("echo ready; exec cat")
	var terminals [2]*terminal
	for i, a := range [][]string{argv.SSH, argv.Hostler} {
		if terminals[i], err = open(a...); err != nil {
			return p, err
		}
		defer terminals[i].close()
		if err := terminals[i].begun(ctx); err != nil {
			return p, err
		}
	}
	var took [2][]time.Duration
	for len(took[1]) < keys {
		for i, t := range terminals {
			some, err := t.echoes(ctx, min(turn, keys-len(took[i])), pace)
			if err != nil {
				return p, err
			}
			took[i] = append(took[i], some...)
		}
	}
	return pair[echo]{echoOf(took[0]), echoOf(took[1])}, nil
}

// text returns lines of incompressible text.
func text(size int) []byte {
	raw := make([]byte, size/4*3)
	_, _ = rand.NewChaCha8([32]byte{}).Read(raw) // never fails
	var lines bytes.Buffer
	for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(raw)), 76) {
		lines.Write(append(line[:len(line):len(line)], '\n'))
	}
	return lines.Bytes()
}

// bulk measures a program's output per second.
func (s *site) bulk(ctx context.Context) (p pair[float64], err error) {
	lines, file := text(bulkSize), "/var/tmp/text"
	if err := os.WriteFile(file, lines, 0o644); err != nil {
		return p, err
	}
	text := bytes.ReplaceAll(lines, []byte("\n"), []byte("\r\n")) // the line ends of a terminal
	argv := s.clients("echo ready; exec cat " + file)
	var rates [2][]float64
	for range bulkRuns {
		for i, a := range [][]string{argv.SSH, argv.Hostler} {
			t, err := open(a...)
			if err != nil {
				return p, err
			}
			rate, err := t.rate(ctx, text)
			t.close()
			if err != nil {
				return p, err
			}
			rates[i] = append(rates[i], rate/1e6)
		}
	}
	fmt.Fprintf(os.Stderr, "ssh, hostler: %.1f MB/s\n", rates)
	slices.Sort(rates[0])
	slices.Sort(rates[1])
	return pair[float64]{quantile(rates[0], 0.5), quantile(rates[1], 0.5)}, nil
}

// lost is what the two ends have let through and thrown away, by their own count.
func lost(ctx context.Context) (string, error) {
	var all []string
	for dev, in := range ends {
		said, err := run(ctx, append(in, "tc", "-s", "qdisc", "show", "dev", dev)...)
		if err != nil {
			return "", err
		}
		all = append(all, strings.Join(strings.Fields(said), " "))
	}
	slices.Sort(all)
	return strings.Join(all, "\n"), nil
}

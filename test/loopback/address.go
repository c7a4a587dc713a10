package loopback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
)

// lowest is the first port that Address returns; Address returns no lower port.
const lowest = 10000

var (
	mu   sync.Mutex
	next int
)

// Address returns a loopback HOST:PORT without a TCP or UDP listener that this process has not used
// before. The port lies below the kernel's ephemeral ports, so that it stays free while its server
// is down.
func Address() (string, error) {
	raw, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err != nil {
		return "", err
	}
	var from, to int
	if _, err := fmt.Sscan(string(raw), &from, &to); err != nil || from <= lowest {
		return "", fmt.Errorf("cannot use the ports from %d up: the kernel picks from %q (%w)", lowest, raw, errors.Join(err, errNone))
	}
	mu.Lock()
	defer mu.Unlock()
	if next == 0 {
		next = rand.IntN(from - lowest) // several processes look at once
	}
	for range from - lowest {
		next++
		address := fmt.Sprintf("127.0.0.1:%d", lowest+next%(from-lowest))
		if free(address) {
			return address, nil
		}
	}
	return "", errNone
}

var errNone = errors.New("no port is free")

func free(address string) bool {
	tcp, err := net.Listen("tcp", address)
	if err != nil {
		return false
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", address)
	if err != nil {
		return false
	}
	return udp.Close() == nil
}

package qemu

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"

	"golang.org/x/crypto/ssh"
)

// permitTunnel is the file of sshd that permits a Tunnel.
const permitTunnel = "/etc/ssh/sshd_config.d/tunnel.conf"

// Sizes of what a tunnel carries, and the numbers of ssh that name it.
const (
	familyBytes = 4 // before each packet
	headerBytes = 20
	packetBytes = 1 << 16
	// headerBytes6 is of IPv6, whose packets are dropped.
	headerBytes6 = 40

	pointToPoint = 1
	anyUnit      = 0x7fffffff
	familyIPv4   = 2
)

// Tunnel is a network of IPv4 between the guest and this process, over ssh. It ends with the connection: a
// restart of the guest ends it, and so does loading a snapshot.
type Tunnel struct {
	// Interface is the guest's end. It has no address yet.
	Interface string

	client  *ssh.Client
	channel ssh.Channel
}

// Tunnel opens a tunnel. The caller must Close it.
func (g *Guest) Tunnel(ctx context.Context) (*Tunnel, error) {
	if err := g.Put(ctx, permitTunnel, []byte("PermitTunnel point-to-point\n"), 0o644); err != nil {
		return nil, err
	}
	if _, err := g.Run(ctx, "systemctl", "reload", "ssh.service"); err != nil {
		return nil, err
	}
	before, err := g.tunnels(ctx)
	if err != nil {
		return nil, err
	}
	t := &Tunnel{}
	// A connection from before the reload has the former settings.
	if err := g.wait(ctx, "a tunnel", func() error { return t.open(ctx, g) }); err != nil {
		return nil, err
	}
	after, err := g.tunnels(ctx)
	for name := range after {
		if !before[name] {
			t.Interface = name
		}
	}
	if err == nil && t.Interface == "" {
		err = errors.New("the tunnel is open, and there is no interface")
	}
	if err != nil {
		_ = t.Close()
		return nil, err
	}
	return t, nil
}

func (t *Tunnel) open(ctx context.Context, g *Guest) error {
	client, err := g.LogIn(ctx, "root", g.keys.operator)
	if err != nil {
		return err
	}
	channel, requests, err := client.OpenChannel("tun@openssh.com", ssh.Marshal(struct{ Mode, Unit uint32 }{pointToPoint, anyUnit}))
	if err != nil {
		_ = client.Close()
		return err
	}
	go ssh.DiscardRequests(requests)
	t.client, t.channel = client, channel
	return nil
}

// tunnels are the names of the guest's interfaces of tunnels.
func (g *Guest) tunnels(ctx context.Context) (map[string]bool, error) {
	r, err := g.Run(ctx, "sh", "-c", `for at in /sys/class/net/*/tun_flags; do [ ! -e "$at" ] || basename "$(dirname "$at")"; done`)
	names := map[string]bool{}
	for name := range strings.FieldsSeq(r.Stdout) {
		names[name] = true
	}
	return names, err
}

// Close ends the tunnel, and the guest's interface with it.
func (t *Tunnel) Close() error { return t.client.Close() }

// Carry carries packets between the tunnel and the other end of the network, which reads and writes one at a
// time. It returns when both have ended.
func (t *Tunnel) Carry(other io.ReadWriter) error {
	ended := make(chan error, 1)
	go func() { ended <- t.receive(other) }()
	return errors.Join(t.send(other), <-ended)
}

// send sends what other reads. A write is one message of ssh, which has one packet.
func (t *Tunnel) send(other io.Reader) error {
	message := make([]byte, familyBytes+packetBytes)
	for {
		n, err := other.Read(message[familyBytes:])
		if err != nil {
			return err
		}
		if n < headerBytes || message[familyBytes]>>4 != 4 {
			continue // it is not of IPv4
		}
		binary.BigEndian.PutUint32(message, familyIPv4)
		if _, err := t.channel.Write(message[:familyBytes+n]); err != nil {
			return err
		}
	}
}

// receive writes to other what the guest sends. A packet ends where its header says.
func (t *Tunnel) receive(other io.Writer) error {
	message := make([]byte, familyBytes+headerBytes+packetBytes)
	packet := message[familyBytes:]
	for {
		if _, err := io.ReadFull(t.channel, message[:familyBytes+headerBytes]); err != nil {
			return err
		}
		size := 0
		switch packet[0] >> 4 {
		case 4:
			size = int(binary.BigEndian.Uint16(packet[2:]))
		case 6:
			size = headerBytes6 + int(binary.BigEndian.Uint16(packet[4:]))
		}
		if size < headerBytes {
			return errors.New("the guest sends something else than packets")
		}
		if _, err := io.ReadFull(t.channel, packet[headerBytes:size]); err != nil {
			return err
		}
		if packet[0]>>4 != 4 {
			continue
		}
		if _, err := other.Write(packet[:size]); err != nil {
			return err
		}
	}
}

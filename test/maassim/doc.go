// Package maassim plays a MAAS region for tests: its REST API under OAuth 1.0a, its
// own status machine, timing, error codes, JSON shapes and events feed, in version
// 3.4, 3.5 or 3.6. It speaks the wire, so whoever talks to a real region talks to it.
//
//	r := &maassim.Region{Version: "3.6", Seed: 7, Now: clock.Now, OAuthNow: time.Now}
//	box := maassim.Box(1)      // hardware; MAAS knows nothing of it yet
//	r.PlugIn(box)
//	c, err := client.GetClientWithTransport(maassim.URL, r.APIKey(), "2.0", r.RoundTripper())
//
// Region is an http.Handler; RoundTripper calls it in process, with no network.
//
// Time is the region's own clock. What MAAS does by itself is written in an agenda
// and done, in the order of its times, when anything next looks at the region:
// there is no goroutine and no sleep. Equal seeds, clocks and calls make equal ids,
// tokens, names and answers.
//
// Hardware stands at a BMC address and is a thing apart from MAAS's record of a
// machine: a record may lead to no hardware, to the wrong one, or with a password
// that does not fit, and hardware that boots from the network unknown is enlisted.
//
// Tests look at Machine and Machines (also at what no API tells: whether the
// installed host is up), at Calls, and at the History of each machine.
package maassim

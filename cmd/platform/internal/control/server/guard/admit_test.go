package guard

import "testing"

func TestOverTCPAHostIsLoopbackByAddressOrAsLocalhost(t *testing.T) {
	if hostHere("platform", true) || hostHere("", true) || !hostHere("localhost:80", true) || !hostHere("[::1]:80", true) {
		t.Error("over TCP a host is loopback by address or as localhost, and nothing else")
	}
}

// The client of Go for `clients`: `client VERSION ACTION URL`, with the actions of endings.py.
package main

import (
	"bufio"
	"net/http"
	"os"
	"runtime"
	"time"
)

func main() {
	version, action, url := os.Args[1], os.Args[2], os.Args[3]
	var protocols http.Protocols
	protocols.SetHTTP1(version == "1")
	protocols.SetUnencryptedHTTP2(version == "2")
	client := http.Client{Transport: &http.Transport{Protocols: &protocols}}
	if action == "time-out" {
		client.Timeout = 500 * time.Millisecond
	}
	response, err := client.Get(url)
	if (err != nil) != (action == "time-out") {
		panic(err)
	}
	switch action {
	case "leaves":
		bufio.NewReader(response.Body).ReadString('\n')
		response.Body.Close()
	case "forgets":
		response = nil
		for range 3 {
			runtime.GC()
			time.Sleep(100 * time.Millisecond)
		}
	}
	time.Sleep(time.Minute)
}

// Package webtest tests the page of shardedlist web in a real browser, headless Chromium, and takes the screenshots of the docs.
package webtest

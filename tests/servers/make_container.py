"""Makes a container on azurite: make_container.py PORT NAME. The account and its key are the emulator's, the same for everybody."""
import base64, email.utils, hashlib, hmac, sys, urllib.request

port, name = sys.argv[1:]
account = "devstoreaccount1"
key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
date = email.utils.formatdate(usegmt=True)
text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:2021-08-06\n/{account}/{account}/{name}\nrestype:container"
signature = base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()
headers = {"x-ms-date": date, "x-ms-version": "2021-08-06", "Authorization": f"SharedKey {account}:{signature}", "Content-Length": "0"}
request = urllib.request.Request(f"http://127.0.0.1:{port}/{account}/{name}?restype=container", method="PUT", headers=headers)
urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request)
